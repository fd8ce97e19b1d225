"""What the parser sees in a log of vLLM: any log at hand, or those of a bundle's launches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from harness.inspection.as_json import as_json
from harness.inspection.as_table import as_table
from harness.inspection.subjects import NotALogError, Subject, subjects
from harness.report.text import plain


def inspect(place: str, form: str) -> Iterator[str]:
    """Pieces of the output, `table` or `json`; memory does not grow with the log.

    Raises:
        NotALogError: there is no log, or none of vLLM.
    """
    found = subjects(place)
    whole: Callable[[Subject], Iterator[str]] = as_json if form == "json" else as_table
    if found[0].launch is None:
        yield from whole(found[0])
        yield "\n"
        return
    opening, between, closing = ('{"launches": [\n', ",\n", "\n]}\n") if form == "json" else ("", "\n\n", "\n")
    yield opening
    for number, subject in enumerate(found):
        yield between if number else ""
        try:
            yield from whole(subject)
        except NotALogError as e:  # a launch that died before its first line belongs here all the same
            yield json.dumps({"file": subject.name, "error": str(e)}) if form == "json" else plain(str(e))
    yield closing
