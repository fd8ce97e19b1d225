"""One self-contained HTML page: nothing is loaded, one script of ours filters a table, everything else is text."""

from __future__ import annotations

import hashlib
from base64 import b64encode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.judge.case import Case
from harness.records import Verdict
from harness.report.sections import contents, sections
from harness.report.sources import Sources
from harness.report.text import plural, public, tokens_text

SHORT = 30
"""Longer figures are sentences, and read better from the left."""

LONGEST = 20_000
"""Characters of one text; a server may write a line of megabytes."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
"""What a browser may do with the page: show it, and run the script with this hash. It can fetch nothing."""


def page(case: Case, verdict: Verdict) -> str:
    """The page."""
    loader, sources = PackageLoader("harness.report"), Sources(case.bundle.root)
    environment = Environment(
        loader=loader,
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {
            "source": sources.link,
            "quoted": sources.quoted,
            "tokens": tokens_text,
            "is_short": _is_short,
            "slug": _slug,
            "plural": plural,
            "mib": _mib,
            "signed": _signed,
            "figure": _figure,
        }
    )
    script, _, _ = loader.get_source(environment, "filter.js")
    found = sections(case, verdict)
    return environment.get_template("page.html.j2").render(
        found,
        contents=contents(found),
        script=Markup(script),  # noqa: S704  # ours; nothing is put into it
        policy=POLICY.format(b64encode(hashlib.sha256(script.encode()).digest()).decode()),
    )


def _shown(value: object) -> object:
    """What every expression of the templates passes through, before it is escaped."""
    if value is None:
        return "-"
    return _within_reason(public(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _within_reason(text: str) -> str:
    """A text whose middle is left out where it is longer than anybody reads; the bundle has it all."""
    beyond = len(text) - LONGEST
    if beyond <= 0:
        return text
    return f"{text[: LONGEST // 2]}\n… {plural(beyond, 'character')} left out …\n{text[-LONGEST // 2 :]}"


def _is_short(text: str | None) -> bool:
    """True for a figure that stands right-aligned under others."""
    return text is None or len(text) <= SHORT


def _mib(value: float | None) -> str | None:
    """A size of memory in whole MiB."""
    return None if value is None else f"{value:,.0f}"


def _signed(value: float | None, digits: int = 1) -> str | None:
    """A change, with its sign."""
    return None if value is None else f"{round(value, digits) + 0.0:+,.{digits}f}"


def _figure(value: float | None, digits: int = 1) -> str | None:
    """A figure to so many places."""
    return None if value is None else f"{value:,.{digits}f}"


def _slug(word: str) -> str:
    """A text as the name of a CSS class, or of an anchor."""
    return "-".join("".join(c if c.isalnum() else " " for c in word).split())
