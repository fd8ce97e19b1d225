"""From the process's start to its first served request."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case, Cell, absent, both, shown
from harness.judge.family import Metric
from harness.judge.judgement import Judgement
from harness.judge.read import LaunchEvidence
from harness.observe.phases import PROCESS, Phase, phases
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
    return phases(marks, launch.log, launch.clock)


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
    control, candidate = cell.values(start_s)
    judged = case.paired.get((cell.mode, cell.warmup, cell.cache, START, None))
    if not both(control, candidate)[0]:
        judged = Judgement(Word.NOT_TESTED, absent(control, candidate))
    elif judged is None:
        judged = Judgement(Word.NOT_TESTED, "the arms started from different cache states")
    return cell.row(
        START,
        judged.word,
        judged.reason,
        control=shown(control),
        candidate=shown(candidate),
        unit="s",
        sources=tuple(f"launches/{x.folder.id}/timeline.jsonl" for _, side in cell.arms() for x in side),
        tested=judged.tested,
    )
