"""Start-up as phases on one clock, and what no phase explains."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from harness.observe.log import Event, Kind


@dataclass(frozen=True)
class LogClock:
    """When each byte of a log arrived (rows of end offset and monotonic ns, both rising)."""

    offsets: Sequence[int]
    times_ns: Sequence[int]

    def at(self, end_offset: int) -> int | None:
        """Arrival of the byte before `end_offset`, in ns; None past the end."""
        place = bisect.bisect_left(self.offsets, end_offset)
        return self.times_ns[place] if place < len(self.times_ns) else None


@dataclass(frozen=True)
class Phase:
    """A named stretch of the start-up."""

    name: str
    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return (self.end_ns - self.begin_ns) / 1e9


PROCESS, CONTAINER, FIRST_LINE = "process started", "container started", "first log line"
HEALTHY, SERVED = "health", "first request"

STRETCHES: tuple[tuple[str, str, str], ...] = (
    ("image and container, to its start", PROCESS, CONTAINER),
    ("interpreter and imports, to the first log line", PROCESS, FIRST_LINE),
    ("more imports, to vLLM's first record", FIRST_LINE, Kind.FIRST_RECORD),
    ("model inspected, to its architecture", FIRST_LINE, Kind.ARCHITECTURE),
    ("arguments, to the engine's banner", FIRST_LINE, Kind.ENGINE_BANNER),
    ("workers, to the model", Kind.ENGINE_BANNER, Kind.LOAD_BEGIN),
    ("model and weights", Kind.LOAD_BEGIN, Kind.WEIGHTS),
    ("load, to the model in place", Kind.LOAD_BEGIN, Kind.MODEL_LOADED),
    ("compile", Kind.COMPILE_BEGIN, Kind.COMPILED),
    ("profile, to KV sizing", Kind.COMPILE_BEGIN, Kind.KV_TOKENS),
    ("KV cache, to captured graphs", Kind.KV_TOKENS, Kind.GRAPHS),
    ("warm-up, to the engine's start", Kind.KV_TOKENS, Kind.ENGINE_INIT),
    ("HTTP front end", Kind.ENGINE_INIT, Kind.HTTP_READY),
    ("to a healthy answer", Kind.HTTP_READY, HEALTHY),
    ("to the first request served", HEALTHY, SERVED),
)
"""Phases by the marks that bound them; one whose marks are missing is left to the unexplained.

One begins where the one before it ended, if that is later than its own mark: of two with the same first mark
the second has what the first leaves, and all of it where the first is missing. vLLM inspects a model, and its drafter,
in a process of their own: 22 s on an H200, next to nothing where its caches have the answer.
"""

LAST_COUNTS = frozenset(
    {Kind.ARCHITECTURE, Kind.WEIGHTS, Kind.MODEL_LOADED, Kind.COMPILED, Kind.KV_TOKENS, Kind.GRAPHS, Kind.ENGINE_INIT}
)
"""Lines that repeat (target and drafter, ranks): the last one ends the phase."""


def phases(marks: dict[str, int], log_events: Sequence[Event], clock: LogClock) -> list[Phase]:
    """Phases between the launcher's marks (name -> ns) and the log's lines, in order.

    Only lines before the first served request count: a later one belongs to no start-up.
    """
    found = _moments(marks, log_events, clock)
    stretches: list[Phase] = []
    for name, begin, end in STRETCHES:
        if begin in found and end in found and found[begin] <= found[end]:
            # Ranks do not march in step: the first one compiles while the last one still loads.
            begin_ns = max(found[begin], stretches[-1].end_ns if stretches else found[begin])
            if begin_ns <= found[end]:
                stretches.append(Phase(name, begin_ns, found[end]))
    return stretches


def _moments(marks: dict[str, int], log_events: Sequence[Event], clock: LogClock) -> dict[str, int]:
    """When each mark was made and each line came that bounds a phase, in ns."""
    found = dict(marks)
    limit = marks.get(SERVED)
    if clock.times_ns and (limit is None or clock.times_ns[0] <= limit):
        found.setdefault(FIRST_LINE, clock.times_ns[0])
    for event in log_events:
        time_ns = clock.at(event.end_offset)
        if time_ns is None or (limit is not None and time_ns > limit):
            continue
        if event.kind is Kind.COMPILED and Kind.KV_TOKENS in found:
            continue  # a part that was compiled after KV sizing is no part of what came before it
        if event.kind is Kind.ARCHITECTURE and Kind.ENGINE_BANNER in found:
            continue  # likewise: the engine's own process may resolve it again
        if event.kind in LAST_COUNTS or event.kind not in found:
            found[event.kind] = time_ns
    if Kind.COMPILE_BEGIN not in found and Kind.MODEL_LOADED in found:
        found[Kind.COMPILE_BEGIN] = found[Kind.MODEL_LOADED]  # an eager engine begins to profile at once
    return found


def unexplained_s(total_s: float, found: Sequence[Phase]) -> float:
    """Seconds of the start-up that no phase covers; phases do not overlap."""
    return max(0.0, total_s - sum(p.seconds for p in found))
