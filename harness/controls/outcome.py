"""What a verdict says of a control: seen and named, not seen, or not run. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from harness.controls.control import Control, Expected
from harness.controls.record import Got, Outcome
from harness.records import Row, Verdict
from harness.words import Word

ENDED = "served to the end"
UNKNOWN = (Word.SETUP_FAILURE, Word.VOID)
"""Whole verdicts that say nothing about a candidate."""
BUSY = "not measured, since this machine is too busy"


def outcome_of(control: Control, verdict: Verdict) -> tuple[Outcome, str]:
    """What became of a control, and what is missing.

    A fault is caught where every expected row carries its word and names what it must, and where a row that fails
    also fails the session. A session that could not show it is a setup failure, never a pass.
    """
    missing = [text for expected in control.expects if (text := _missing(expected, verdict)) is not None]
    if not missing and (wrong := _whole(control, verdict)) is not None:
        missing = [wrong]
    if not missing:
        return (Outcome.CAUGHT if control.worse else Outcome.PASSED), ""
    if (why := _not_run(control, verdict)) is not None:
        return Outcome.SETUP_FAILURE, why
    return (Outcome.NOT_CAUGHT if control.worse else Outcome.FALSE_ALARM), "; ".join(missing)


def got(control: Control, verdict: Verdict) -> tuple[Got, ...]:
    """The rows that were looked at: per expectation the one that meets it, else all of that name."""
    found = []
    for expected in control.expects:
        rows = list(_rows(expected, verdict))
        found += [r for r in rows if _meets(expected, r)][:1] or rows
    return tuple(Got(row=r.name, word=r.word, reason=r.reason) for r in found)


def _rows(expected: Expected, verdict: Verdict) -> Iterator[Row]:
    return (r for r in verdict.rows if r.name == expected.row)


def _meets(expected: Expected, row: Row) -> bool:
    return row.word is expected.word and all(text in row.reason for text in expected.told)


def _missing(expected: Expected, verdict: Verdict) -> str | None:
    """What the rows of that name say instead; equal arms must be so in every cell, a fault shows in one."""
    rows = list(_rows(expected, verdict))
    met = [r for r in rows if _meets(expected, r)]
    if met and (expected.word is not Word.PASS or len(met) == len(rows)):
        return None
    said = "; ".join(dict.fromkeys(f"{r.word}: {r.reason}" for r in rows if r not in met)) or "there is no such row"
    return f"expected {expected.text()}, got {said}"


def _whole(control: Control, verdict: Verdict) -> str | None:
    """What is wrong with the whole verdict, whose exit code is all that a script sees."""
    fails = any(expected.word is Word.FAIL for expected in control.expects)
    if fails and verdict.verdict is not Word.FAIL:
        return f"the row fails, and yet the verdict is {verdict.verdict}"
    if not control.worse and verdict.verdict is not Word.PASS:
        row = next((r for r in verdict.rows if r.word is verdict.verdict), None)
        return f"expected the verdict pass, got {verdict.verdict}{f': {row.name}: {row.reason}' if row else ''}"
    return None


def _not_run(control: Control, verdict: Verdict) -> str | None:
    """Why the session could not have shown the fault, or None."""
    if verdict.verdict in UNKNOWN:
        row = next(r for r in verdict.rows if r.word is verdict.verdict)
        return f"the session is a {verdict.verdict}: {row.name}: {row.reason}"
    dies = any(expected.row == ENDED and expected.word is Word.FAIL for expected in control.expects)
    ended = next((r for r in verdict.rows if r.name == ENDED and r.word in (Word.FAIL, Word.NOT_TESTED)), None)
    if ended is not None and control.worse and not dies:
        return f"the candidate did not serve, so it showed nothing else: {ended.reason}"
    late = next((r for r in verdict.rows if r.name == "client kept up" and r.word is Word.WARN), None)
    unmeasured = {r.name for e in control.expects for r in _rows(e, verdict) if r.word is Word.NOT_TESTED}
    if late is not None and unmeasured:
        return f"{', '.join(sorted(unmeasured))} {BUSY}: {late.reason}"
    return None
