"""Did both arms come up and serve to the end?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto

from harness.judge.case import Case, Cell, completed, died_of_a_kind, not_begun
from harness.judge.cause import Cause, cause
from harness.judge.read import LaunchEvidence
from harness.records import Row
from harness.words import LaunchStatus, Word


class _End(Enum):
    """How a launch ended, and whose doing that was."""

    SERVED = auto()
    FAILED = auto()
    ENVIRONMENT = auto()
    """It could not be started, or lacks a module, and no earlier launch is the reason."""
    UNKNOWN = auto()
    """Never begun, interrupted, or left without the cache of a cold launch that did not complete."""


def rows(case: Case) -> Iterator[Row]:
    """One row per cell: a candidate that dies while the control serves is a fail."""
    for cell in case.cells:
        yield _row(case, cell)


def _row(case: Case, cell: Cell) -> Row:
    pairs = list(zip(cell.control, cell.candidate, strict=True))
    launches = [x for pair in pairs for x in pair]
    failed = [x for x in launches if not completed(x)]
    causes = {x.folder.id: found for x in failed if not not_begun(x) and (found := cause(x)) is not None}
    words = [_word(_end(case, a, causes), _end(case, b, causes)) for a, b in pairs]
    worst: Word = next(w for w in (Word.FAIL, Word.SETUP_FAILURE, Word.NOT_TESTED, Word.PASS) if w in words)
    reasons = list(_reasons(failed, causes))
    killed = [x for x in launches if completed(x) and _was_killed(x)]
    reasons += [f"{x.folder.id}: served its course, and had to be killed at the end" for x in killed]
    died = [x for x in launches if died_of_a_kind(x)]
    reasons += [f"{x.folder.id}: served its course, and ended under a request-kind probe" for x in died]
    if worst is Word.PASS and (killed or died):
        alone = not any(x in cell.control for x in killed + died)
        worst = Word.WARN if alone else Word.NOTE
    return cell.row(
        "served to the end",
        worst,
        "; ".join(reasons) or "every launch was ready, served its course and stopped when asked",
        control=_count(cell.control),
        candidate=_count(cell.candidate),
        unit="launches",
        sources=tuple(s for x in launches if x.record for s in _sources(x, causes)),
    )


def _word(control: _End, candidate: _End) -> Word:
    if control is candidate is _End.SERVED:
        return Word.PASS
    if _End.ENVIRONMENT in (control, candidate) or control is _End.FAILED:
        return Word.SETUP_FAILURE
    return Word.FAIL if candidate is _End.FAILED and control is _End.SERVED else Word.NOT_TESTED


def _end(case: Case, launch: LaunchEvidence, causes: Mapping[str, Cause]) -> _End:
    if completed(launch):
        return _End.SERVED
    record = launch.record
    if record is None or record.status is not LaunchStatus.FAILED:
        return _End.UNKNOWN
    if not not_begun(launch):
        found = causes.get(launch.folder.id)
        return _End.ENVIRONMENT if found is not None and found.lacks_a_module else _End.FAILED
    source = case.launches.get(record.launch.warm_from or "")
    return _End.UNKNOWN if source is not None and not completed(source) else _End.ENVIRONMENT


def _how(launch: LaunchEvidence) -> str:
    record = launch.record
    if record is None:
        return "not started"
    if record.status is LaunchStatus.INTERRUPTED:
        return f"interrupted{f' ({record.reason})' if record.reason else ''}"
    return f"failed at {record.stage}: {record.reason}"


def _reasons(launches: list[LaunchEvidence], causes: Mapping[str, Cause]) -> Iterator[str]:
    """How each ended, and what its log names as the cause, where none before it named the same."""
    told: set[str] = set()
    for launch in launches:
        found = causes.get(launch.folder.id)
        is_new = found is not None and found.text not in told
        yield f"{launch.folder.id}: {_how(launch)}{f'; {found.told()}' if found and is_new else ''}"
        told |= {found.text} if found else set()


def _sources(launch: LaunchEvidence, causes: Mapping[str, Cause]) -> Iterator[str]:
    yield f"launches/{launch.folder.id}/launch.json"
    if (found := causes.get(launch.folder.id)) is not None:
        yield f"launches/{launch.folder.id}/server.log:{found.line}"


def _was_killed(launch: LaunchEvidence) -> bool:
    """The server, or a process of it, did not end when it was asked to."""
    exit_ = launch.record.exit if launch.record else None
    return exit_ is not None and (exit_.signal == "SIGKILL" or exit_.survivors_killed > 0)


def _count(side: tuple[LaunchEvidence, ...]) -> str:
    return f"{sum(map(completed, side))} of {len(side)}"
