"""Start-up of every launch as phases, with what no phase explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.judge.rows.startup import start_phases
from harness.observe.log import Kind
from harness.observe.phases import HEALTHY, LAST_COUNTS, PROCESS, SERVED, STRETCHES
from harness.records import PlannedLaunch
from harness.report.launches import in_order

BOUNDARIES = [kind for kind in Kind if any(kind in stretch for stretch in STRETCHES)]

UNIT_NS = 10_000_000
"""Seconds are shown to two places."""


@dataclass(frozen=True)
class Stretch:
    """A piece of a start-up in seconds since the process was started."""

    name: str | None
    """None where no phase explains it."""
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Start:
    """One launch from its process to its first served request, or to its end."""

    launch: PlannedLaunch
    stretches: tuple[Stretch, ...]
    """Without a gap from 0 to the end."""
    ready: bool
    seconds: dict[str, str]
    """Shown seconds by phase."""
    unexplained: str
    total: str
    """Phases and unexplained add up to it exactly as shown."""
    sources: tuple[str, ...]


def starts(case: Case) -> list[Start]:
    """Every launch whose process was started, in run order."""
    found = [_start(planned, case.launches[planned.id]) for planned in in_order(case)]
    return [s for s in found if s is not None]


def phase_names(found: Sequence[Start]) -> list[str]:
    """Phases that any of these launches went through, in order."""
    seen = {name for start in found for name in start.seconds}
    return [name for name, _, _ in STRETCHES if name in seen]


def apportioned(parts_ns: Sequence[int], unit_ns: int = UNIT_NS) -> list[int]:
    """Parts in whole units that add up to their rounded sum: a shown column must add up as shown."""
    units = [p // unit_ns for p in parts_ns]
    short = round(sum(parts_ns) / unit_ns) - sum(units)
    largest = sorted(range(len(units)), key=lambda i: parts_ns[i] % unit_ns, reverse=True)
    for i in largest[:short]:
        units[i] += 1
    return units


def _start(planned: PlannedLaunch, launch: LaunchEvidence) -> Start | None:
    begin = launch.mark_ns(PROCESS)
    if begin is None:
        return None
    phases = start_phases(launch)
    end = launch.ready_ns
    if end is None:
        # Not ready: shown up to where it was given up, or to the last thing that was seen of it.
        end = launch.mark_ns("stop asked") or max([m.mono_ns for m in launch.marks] + [p.end_ns for p in phases])
        phases = [p for p in phases if p.end_ns <= end]
    lengths = [p.end_ns - p.begin_ns for p in phases]
    *shown, unexplained = apportioned([*lengths, end - begin - sum(lengths)])
    stretches, now = [], begin
    for phase in phases:
        if phase.begin_ns > now:
            stretches.append(_stretch(None, now, phase.begin_ns, begin))
        stretches.append(_stretch(phase.name, phase.begin_ns, phase.end_ns, begin))
        now = phase.end_ns
    if end > now:
        stretches.append(_stretch(None, now, end, begin))
    return Start(
        launch=planned,
        stretches=tuple(stretches),
        ready=launch.ready_ns is not None,
        seconds={p.name: _seconds(units) for p, units in zip(phases, shown, strict=True)},
        unexplained=_seconds(unexplained),
        total=_seconds(sum(shown) + unexplained),
        sources=tuple(_sources(launch)),
    )


def _sources(launch: LaunchEvidence) -> Iterator[str]:
    """The lines that bound the phases, and the files that say when they came."""
    folder = f"launches/{launch.folder.id}"
    yield f"{folder}/timeline.jsonl: {PROCESS}, {HEALTHY}, {SERVED}"
    yield f"{folder}/server.log.times.jsonl"
    for kind in BOUNDARIES:
        if found := [e for e in launch.of_kind(kind) if launch.before_ready(e)]:
            yield f"{launch.place(found[-1] if kind in LAST_COUNTS else found[0])}: {kind}"


def _stretch(name: str | None, begin_ns: int, end_ns: int, origin_ns: int) -> Stretch:
    return Stretch(name, (begin_ns - origin_ns) / 1e9, (end_ns - origin_ns) / 1e9)


def _seconds(units: int) -> str:
    return f"{units * UNIT_NS / 1e9:.2f}"
