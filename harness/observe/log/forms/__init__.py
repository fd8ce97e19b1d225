"""What lines say, as data: one entry per form, in the order in which they are tried.

Forms and their history: notes/vllm.md, sections 1 and 2 of the project's background material. A form is
recognised by its text and never by a version number: forks print versions of their own.
"""

from harness.observe.log.forms import failures, identity, memory, model, serving
from harness.observe.log.forms.failures import Failure
from harness.observe.log.forms.form import Form, typed

FORMS: tuple[Form, ...] = (*identity.FORMS, *model.FORMS, *memory.FORMS, *serving.FORMS, *failures.FORMS)

__all__ = ["FORMS", "Failure", "Form", "typed"]
