"""A night in at most twenty lines: the verdict, what moved, since when, and where the report lies."""

from __future__ import annotations

import re
from collections import Counter

from harness.config.strict import Strict
from harness.errors import QualifyError
from harness.evidence.bundle import Bundle
from harness.judge.rows.calibration import NIGHTS
from harness.records import Row, Verdict
from harness.report.summary import cell_text
from harness.report.text import plain
from harness.words import Word

MOST_LINES = 20
WIDTH = 200
TOLD = (Word.FAIL, Word.SETUP_FAILURE, Word.VOID, Word.REFUSED, Word.INCONCLUSIVE, Word.WARN, Word.IMPROVED)
"""Words of rows that a night tells of, gravest first."""
_SINCE = re.compile(r" since (\d{4}-\d\d-\d\d)")


class Moved(Strict):
    """One row that is not as it was."""

    what: str
    word: Word
    since: str | None
    """First night of a change that lasts; None for what this night alone shows."""
    reason: str


class Summary(Strict):
    """What a hook gets, as JSON."""

    night: str
    profile: str
    against: str
    verdict: Word
    exit_code: int
    session: str | None
    """None where no session came about."""
    moved: tuple[Moved, ...]
    note: str
    report: str | None


def summarise(bundle: Bundle, verdict: Verdict, against: str) -> Summary:
    """The summary of a night that has a verdict."""
    plan = bundle.plan()
    assert plan.night is not None
    rows = sorted((r for r in verdict.rows if r.word in TOLD), key=lambda r: (TOLD.index(r.word), r.name))
    return Summary(
        night=plan.night.date,
        profile=plan.profile.name,
        against=against,
        verdict=verdict.verdict,
        exit_code=verdict.exit_code,
        session=plan.session,
        moved=tuple(_moved(row) for row in rows),
        note=_note(verdict),
        report=str(bundle.report_dir / "report.html"),
    )


def failed(night: str, profile: str | None, error: QualifyError) -> Summary:
    """The summary of a night that did not come to a session: nobody else would tell of it."""
    return Summary(
        night=night,
        profile=profile or "the profile of this host",
        against="nothing: the session did not begin",
        verdict=Word.SETUP_FAILURE,
        exit_code=error.exit_code,
        session=None,
        moved=(),
        note=str(error),
        report=None,
    )


def text_of(summary: Summary) -> str:
    """The summary for a mail: MOST_LINES lines at most."""
    head = [
        f"{summary.profile}, night of {summary.night}: {summary.verdict} (exit code {summary.exit_code})",
        _line(summary.against),
        _line(summary.note),
    ]
    foot = [f"session: {summary.session}", f"report: {summary.report}"] if summary.session else []
    room = MOST_LINES - len(head) - len(foot)
    lines = [_line(f"{m.word}: {m.what}: {m.reason}") for m in summary.moved] or ["nothing moved"]
    if len(lines) > room:
        lines = [*lines[: room - 1], f"and {len(lines) - room + 1} rows more"]
    return "\n".join([*head, *lines, *foot]) + "\n"


def _moved(row: Row) -> Moved:
    place = cell_text(row)
    since = _SINCE.search(row.reason) if row.name.startswith(NIGHTS) else None
    return Moved(
        what=plain(f"{row.name}{f' [{place}]' if place else ''}"),
        word=row.word,
        since=since.group(1) if since else None,
        reason=_line(row.reason),
    )


def _note(verdict: Verdict) -> str:
    """What the series could say at all."""
    rows = [r for r in verdict.rows if r.name.startswith(NIGHTS)]
    if not rows:
        return "no primary metric has a series: only the A/B speaks"
    untested = [r for r in rows if r.word is Word.NOT_TESTED]
    if untested:
        [(most, _)] = Counter(r.reason for r in untested).most_common(1)
        return f"{len(rows) - len(untested)} of {len(rows)} series speak; of the others: {most}"
    lasting = [r for r in rows if r.word in (Word.FAIL, Word.IMPROVED)]
    return f"{len(rows)} series of nights, {len(lasting)} with a lasting change"


def _line(text: str) -> str:
    line = " ".join(plain(text).split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."
