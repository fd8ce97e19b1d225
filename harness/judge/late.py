"""From when on a kernel is late (DESIGN 2), and the phase that an event fell into.

Late is what was compiled or first loaded after the engine's monitor was armed or, where there is no
monitor, after KV sizing. Each process that arms a monitor counts from its own line.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from harness.judge.read import LaunchEvidence
from harness.observe.log import Event, Kind
from harness.observe.phases import HEALTHY
from harness.records import Mark

SIZING, TO_READY, START_UP = "start-up, before KV sizing", "start-up, KV sizing to ready", "start-up"
BETWEEN, STOPPING, UNKNOWN = "between requests", "after the stop", "unknown time"


@dataclass(frozen=True)
class LateFrom:
    """The moment after which kernels are late."""

    since: str
    """What that moment is, in words."""
    time_ns: int | None
    """For what the log does not tell; None where the launch shows no such moment."""
    by_process: Mapping[str, Event] = field(default_factory=dict)
    """Lines of the processes that armed a monitor, as the log names them."""
    line: Event | None = None
    """The line from which on all are late."""

    def is_late(self, time_ns: int | None) -> bool:
        """True after that moment; False where either time is unknown."""
        return time_ns is not None and self.time_ns is not None and time_ns > self.time_ns

    def is_late_line(self, event: Event, time_ns: int | None) -> bool:
        """The same for a line of the log, by its place: lines that arrive together share a time."""
        begin = self.by_process.get(event.process, self.line)
        return self.is_late(time_ns) if begin is None else event.end_offset > begin.end_offset


def late_from(launch: LaunchEvidence) -> LateFrom:
    """From when on this launch's kernels are late."""
    armed: dict[str, Event] = {}
    for event, _ in _start_up_lines(launch, Kind.JIT_ARMED):
        armed.setdefault(event.process, event)
    if armed:
        last = max(armed.values(), key=lambda e: e.end_offset)
        return LateFrom("the monitor was armed", launch.clock.at(last.end_offset), armed, last)
    if sized := _start_up_lines(launch, Kind.KV_TOKENS):
        event, time_ns = sized[-1]
        return LateFrom("KV sizing, as there is no monitor", time_ns, line=event)
    healthy = launch.mark_ns(HEALTHY)
    since = "/health answered, as the log shows neither monitor nor KV sizing" if healthy else "no such moment"
    return LateFrom(since, healthy)


def _start_up_lines(launch: LaunchEvidence, kind: Kind) -> list[tuple[Event, int]]:
    """Lines of a kind before the first request was served, with their times."""
    ready = launch.ready_ns
    times = [(e, launch.clock.at(e.end_offset)) for e in launch.of_kind(kind)]
    return [(e, t) for e, t in times if t is not None and (ready is None or t <= ready)]


def is_late_line(launch: LaunchEvidence, since: LateFrom, event: Event) -> bool:
    """True for a line of the log after that moment and before the harness asked the server to stop."""
    time_ns, stop = launch.clock.at(event.end_offset), launch.mark_ns("stop asked")
    return since.is_late_line(event, time_ns) and (stop is None or time_ns is None or time_ns < stop)


@dataclass(frozen=True)
class Course:
    """The phases of one launch; a phase is named as the report shows it. Asked about thousands of files."""

    launch: LaunchEvidence

    def phase(self, time_ns: int | None) -> str:
        """The phase at a time. The readiness completion is one of its own."""
        if time_ns is None:
            return UNKNOWN
        if self._stop_ns is not None and time_ns >= self._stop_ns:
            return STOPPING
        times, steps = self._changes
        place = bisect.bisect_right(times, time_ns)
        step = steps[place - 1] if place else BETWEEN
        if step != BETWEEN or (self._ready_ns is not None and time_ns > self._ready_ns):
            return step
        if self._sized_ns is None:
            return START_UP
        return SIZING if time_ns <= self._sized_ns else TO_READY

    def serving(self, time_ns: int | None) -> bool:
        """True from the readiness completion on."""
        return self.phase(time_ns) not in (SIZING, TO_READY, START_UP, STOPPING, UNKNOWN)

    def requests(self, begin_ns: int | None, end_ns: int | None) -> tuple[str, ...]:
        """Requests that were in flight in a stretch of time."""
        if begin_ns is None or end_ns is None:
            return ()
        return tuple(name for name, begin, end in self._requests if begin <= end_ns and begin_ns <= end)

    @cached_property
    def _stop_ns(self) -> int | None:
        return self.launch.mark_ns("stop asked")

    @cached_property
    def _ready_ns(self) -> int | None:
        return self.launch.ready_ns

    @cached_property
    def _sized_ns(self) -> int | None:
        return max((t for _, t in _start_up_lines(self.launch, Kind.KV_TOKENS)), default=None)

    @cached_property
    def _changes(self) -> tuple[list[int], list[str]]:
        """When a step of the course begins or ends, and what runs from then on."""
        times = sorted(m.mono_ns for m in self.launch.marks if m.mark in ("step begins", "step ends"))
        return times, [self.launch.step_at(t) for t in times]

    @cached_property
    def _requests(self) -> list[tuple[str, int, int]]:
        return [(r.request, r.begin_ns, r.end_ns) for w in self.launch.windows for r in w.requests]


class WallClock:
    """From a file's time to the clock of the marks, which hold both: the wall's in whole milliseconds."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        pairs = ((_wall_ns(m.wall), m.mono_ns) for m in marks)
        self._pairs = sorted((wall, mono) for wall, mono in pairs if wall is not None)

    def monotonic_ns(self, wall_ns: int | None) -> int | None:
        """By the mark that is nearest, since a clock may be set; None without a mark or a time."""
        if wall_ns is None or not self._pairs:
            return None
        place = bisect.bisect_left(self._pairs, (wall_ns, 0))
        near = self._pairs[max(0, place - 1) : place + 1]
        wall, mono = min(near, key=lambda p: abs(p[0] - wall_ns))
        return mono + wall_ns - wall


def _wall_ns(text: str) -> int | None:
    """Nanoseconds since 1970, None for a mark without a wall time."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000) * 1_000_000
    except ValueError:
        return None
