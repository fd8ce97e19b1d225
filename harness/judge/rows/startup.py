"""From the process's start to its first served request."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from harness.judge.case import Case, Cell, absent, both, shown
from harness.judge.family import Metric
from harness.judge.judgement import Judgement
from harness.judge.read import LaunchEvidence
from harness.observe.phases import CONTAINER, PROCESS, Phase, phases
from harness.records import Row
from harness.words import Cache, Word

START = "start-up"


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
                yield _row(case, cell)


def metrics(case: Case, cell: Cell) -> Iterator[Metric]:
    """The start, where both arms found the same caches."""
    if cell.same_cache_state:
        yield Metric(START, None, start_s, case.plan.profile.gates.startup_pct, more_is_better=False)


def _row(case: Case, cell: Cell) -> Row:
    control, candidate = cell.timed(start_s)
    judged = case.paired.get((cell.mode, cell.warmup, cell.cache, START, None))
    if not both(control, candidate)[0]:
        judged = Judgement(Word.NOT_TESTED, absent(control, candidate))
    elif judged is None:
        judged = Judgement(Word.NOT_TESTED, "the arms started from different cache states")
    return cell.row(
        START,
        judged.word,
        judged.reason,
        control=shown(control, "{:.2f}"),
        candidate=shown(candidate, "{:.2f}"),
        unit="s",
        sources=tuple(f"launches/{x.folder.id}/timeline.jsonl" for _, side in cell.arms() for x in side),
        tested=judged.tested,
    )
