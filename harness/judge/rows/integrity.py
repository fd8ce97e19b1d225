"""Is the session itself whole: every planned launch there, in order, one at a time per lane?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.records import Row
from harness.words import Step, Word


def rows(case: Case) -> Iterator[Row]:
    """Completeness and order."""
    yield _complete(case)
    yield _order(case)


def _complete(case: Case) -> Row:
    missing = [i for i, x in case.launches.items() if x.record is None or x.record.end_ns is None]
    done = len(case.launches) - len(missing)
    if missing:
        why = case.run.interrupted or "the harness ended before they did, or the selection left them out"
        word, reason = Word.VOID, f"{len(missing)} launches are missing or unfinished, from {missing[0]}: {why}"
    else:
        word, reason = Word.PASS, "every planned launch has a record with an end"
    return Row(
        name="session complete",
        control=f"{done} of {len(case.launches)}",
        unit="launches",
        word=word,
        reason=reason,
        sources=("plan.json", "run.json"),
    )


def _order(case: Case) -> Row:
    """Launches of a lane never overlap, and run in the plan's order."""
    faults = []
    for lane in sorted({x.lane for x in case.plan.launches}):
        ran = [
            case.launches[x.id].record
            for x in sorted(case.plan.launches, key=lambda x: x.ordinal)
            if x.lane == lane and case.launches[x.id].record is not None
        ]
        for before, after in pairwise(r for r in ran if r is not None):
            if before.end_ns is None or after.begin_ns < before.end_ns:
                faults.append(f"{after.launch.id} began before {before.launch.id} had ended")
    faults += [fault for launch in case.launches.values() if (fault := _course_fault(launch))]
    return Row(
        name="launch order",
        word=Word.VOID if faults else Word.PASS,
        reason=faults[0]
        if faults
        else "launches of a lane ran in the plan's order, one at a time, each along the same course",
        sources=("plan.json",),
    )


def _course_fault(launch: LaunchEvidence) -> str | None:
    """Steps are skipped or run, never reordered: a first 32K prompt after decode passes is not the first."""
    order = list(Step)
    steps = [m.step for m in launch.marks if m.mark == "step begins" and m.step is not None]
    for before, after in pairwise(steps):
        if order.index(after) < order.index(before):
            return f"{launch.folder.id}: {after} ran after {before}"
    return None
