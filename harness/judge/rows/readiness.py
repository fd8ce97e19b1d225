"""Did both arms come up and serve to the end?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case, Cell, completed
from harness.judge.read import LaunchEvidence
from harness.records import Row
from harness.words import LaunchStatus, Word

STAGE_OF_ENVIRONMENT = "caches"
"""A launch that could not start because an earlier one left nothing says nothing about its arm."""


def rows(case: Case) -> Iterator[Row]:
    """One row per cell: a candidate that dies while the control serves is a fail."""
    for cell in case.cells:
        yield _row(cell)


def _row(cell: Cell) -> Row:
    pairs = list(zip(cell.control, cell.candidate, strict=True))
    words = [_word(a, b) for a, b in pairs]
    worst = next(w for w in (Word.FAIL, Word.SETUP_FAILURE, Word.NOT_TESTED, Word.PASS) if w in words)
    launches = [x for pair in pairs for x in pair]
    reasons = [f"{x.folder.id}: {_how(x)}" for x in launches if not completed(x)]
    return cell.row(
        "served to the end",
        worst,
        "; ".join(reasons) or "every launch was ready, served its course and stopped when asked",
        control=_count(cell.control),
        candidate=_count(cell.candidate),
        unit="launches",
        sources=tuple(f"launches/{x.folder.id}/launch.json" for x in launches if x.record),
    )


def _word(control: LaunchEvidence, candidate: LaunchEvidence) -> Word:
    if completed(control) and completed(candidate):
        return Word.PASS
    if any(_not_its_fault(x) for x in (control, candidate)):
        return Word.NOT_TESTED
    return Word.FAIL if completed(control) else Word.SETUP_FAILURE


def _not_its_fault(launch: LaunchEvidence) -> bool:
    record = launch.record
    return (
        record is None
        or record.status is LaunchStatus.INTERRUPTED
        or (record.status is LaunchStatus.FAILED and record.stage == STAGE_OF_ENVIRONMENT)
    )


def _how(launch: LaunchEvidence) -> str:
    record = launch.record
    if record is None:
        return "not started"
    if record.status is LaunchStatus.INTERRUPTED:
        return f"interrupted{f' ({record.reason})' if record.reason else ''}"
    return f"failed at {record.stage}: {record.reason}"


def _count(side: tuple[LaunchEvidence, ...]) -> str:
    return f"{sum(map(completed, side))} of {len(side)}"
