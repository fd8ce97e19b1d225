"""From the process's start to its first served request."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from harness.judge.case import Case, Cell, absent, both, shown
from harness.judge.paired import judge_pairs
from harness.judge.read import LaunchEvidence
from harness.observe.phases import CONTAINER, PROCESS, Phase, phases
from harness.records import Row
from harness.words import Cache, Word


def start_s(launch: LaunchEvidence) -> float | None:
    """Seconds from the process's start to the first request served in full."""
    begin, ready = launch.mark_ns(PROCESS), launch.ready_ns
    return None if begin is None or ready is None else (ready - begin) / 1e9


def start_phases(launch: LaunchEvidence) -> list[Phase]:
    """The start-up's phases, from marks and log lines on one clock."""
    marks = {m.mark: m.mono_ns for m in launch.marks if m.source in ("launcher", "http")}
    container = container_start_ns(launch)
    return phases(marks if container is None else {**marks, CONTAINER: container}, launch.log, launch.clock)


def container_start_ns(launch: LaunchEvidence) -> int | None:
    """Monotonic time at which the engine says that the container started; None without one.

    The engine has wall time only. The launcher's mark has both, to a millisecond, so the distance between them
    counts; one that leads out of the start-up is a changed clock and not a time.
    """
    record, begin, ready = launch.record, launch.mark_ns(PROCESS), launch.ready_ns
    asked = next((m for m in launch.marks if m.mark == PROCESS), None)
    if record is None or record.container is None or record.container.started_wall is None or not asked:
        return None
    try:
        started = datetime.fromisoformat(record.container.started_wall)
        after_ns = round((started - datetime.fromisoformat(asked.wall)).total_seconds() * 1e9)
    except (ValueError, TypeError):
        return None
    found = asked.mono_ns + after_ns
    return found if begin is not None and begin <= found and (ready is None or found <= ready) else None


def rows(case: Case) -> Iterator[Row]:
    """Cold cells, then warm ones."""
    for cache in (Cache.COLD, Cache.WARM):
        for cell in case.cells:
            if cell.cache is cache:
                yield _row(cell, case.plan.profile.gates.startup_pct)


def _row(cell: Cell, margin_pct: float) -> Row:
    control, candidate = cell.values(lambda launch: None if launch.clock_jump else start_s(launch))
    pairs = both(control, candidate)
    if not pairs[0]:
        word, reason = Word.NOT_TESTED, absent(control, candidate)
    elif not cell.same_cache_state:
        word, reason = Word.NOT_TESTED, "the arms started from different cache states"
    else:
        judged = judge_pairs(*pairs, margin_pct=margin_pct, more_is_better=False)
        word, reason = judged.word, judged.reason
    return cell.row(
        "start-up",
        word,
        reason,
        control=shown(control),
        candidate=shown(candidate),
        unit="s",
        sources=tuple(f"launches/{x.folder.id}/timeline.jsonl" for _, side in cell.arms() for x in side),
    )
