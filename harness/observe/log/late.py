"""Which kernels came late: DESIGN 2's definition, from the log's own order.

Late is what was compiled or first loaded after the engine's monitor was armed, or, where there is no monitor,
after KV sizing. Every rank has a monitor of its own, so a rank's line counts for its own lines; what a process
says that armed none (the front end, a compiler's worker) is late after the last rank was armed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.observe.log.event import Event, Kind

FROM_MONITOR, FROM_KV_SIZING = "the monitor was armed", "KV sizing, as there is no monitor"

COMPILES = frozenset({Kind.LATE_JIT, Kind.KERNEL_COMPILE, Kind.CACHE_MISS, Kind.CACHE_HIT, Kind.CACHE_LOAD_FAILED})
"""Lines of something that was compiled or loaded."""


@dataclass(frozen=True)
class Lateness:
    """From where on a launch's kernels are late."""

    since: str
    """`FROM_MONITOR` or `FROM_KV_SIZING`."""
    begin: Event
    """The line from which on all are late."""
    by_process: dict[str, Event]
    """The line of each process that armed a monitor itself."""

    def is_late(self, event: Event) -> bool:
        """True for an event that stands after the line that counts for its process."""
        return event.offset > self.by_process.get(event.process, self.begin).offset


def lateness(events: Iterable[Event]) -> Lateness | None:
    """From where on kernels are late, or None where the log shows neither monitor nor KV size."""
    armed: dict[str, Event] = {}
    sized: Event | None = None
    for event in events:
        if event.kind is Kind.JIT_ARMED:
            armed.setdefault(event.process, event)
        elif event.kind is Kind.KV_TOKENS and (sized is None or not armed):
            sized = event
    if armed:
        return Lateness(FROM_MONITOR, max(armed.values(), key=lambda e: e.offset), armed)
    return Lateness(FROM_KV_SIZING, sized, {}) if sized else None


def late_events(events: Sequence[Event]) -> list[Event]:
    """Every line of a late compile or load, in order; empty where nothing says from where on."""
    found = lateness(events)
    return [e for e in events if e.kind in COMPILES and found.is_late(e)] if found else []
