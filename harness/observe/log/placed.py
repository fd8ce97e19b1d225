"""Which process of a log is which rank, and which worker died. Pure: events in, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.observe.log.event import Event, Kind
from harness.observe.log.process import rank_name, rank_order
from harness.observe.log.ranks import MOST_PROCESSES


@dataclass(frozen=True)
class Placed:
    """The ranks that lines name, and the processes that are known to be one."""

    names: tuple[str, ...]
    """As `rank_name` gives them, in order."""
    by_pid: Mapping[int, str]
    """Pids as the server's own namespace numbers them."""

    def of(self, event: Event) -> str | None:
        """The rank that wrote a line: by its process, whose first lines may lack the rank, else by the line."""
        known = None if event.pid is None else self.by_pid.get(event.pid)
        return known or rank_name(event.process)


def placed(events: Iterable[Event]) -> Placed:
    """Every rank of a log: `VllmWorker-1` becomes `Worker_TP1` once it has its place."""
    return _Placing(events).placed()


def dead_worker(events: Iterable[Event]) -> str | None:
    """`worker TP1 died (exit code -9)`: the first worker whose death the engine tells; None where it tells none.

    A worker that the engine ends itself, as it does with the others after that, is not told of.
    """
    placing = _Placing(events)
    death = placing.death
    if death is None:
        return None
    who, how = str(death.values["who"]), str(death.values.get("how", ""))
    by_pid = placing.placed().by_pid
    known = {by_pid.get(pid) for pid in placing.pids.get(who) or placing.pids_told(who)} - {None}
    name = f"{known.pop()}" if len(known) == 1 else rank_name(who) or who
    return f"worker {name} died" + (f" ({how.replace(':', '')})" if how else "")


class _Placing:
    """One pass over the events."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.names: dict[int | None, dict[str, None]] = {}
        self.pids: dict[str, dict[int, None]] = {}
        self.told: dict[int, str] = {}
        """Names that processes have by their ranks, where no line bears them."""
        self.death: Event | None = None
        for event in events:
            self._feed(event)

    def _feed(self, event: Event) -> None:
        if event.kind is Kind.ERROR and event.values.get("fatal") == "worker" and "who" in event.values:
            self.death = self.death or event
        if event.kind is Kind.WORKER_RANK and event.pid is not None and len(self.told) < MOST_PROCESSES:
            self.told[event.pid] = f"VllmWorker-{event.values['rank']}"
        if (name := rank_name(event.process)) is None:
            return
        if event.pid in self.names or len(self.names) < MOST_PROCESSES:
            found = self.names.setdefault(event.pid, {})
            if len(found) < MOST_PROCESSES:
                found[name] = None
        if event.pid is not None and (event.process in self.pids or len(self.pids) < MOST_PROCESSES):
            self.pids.setdefault(event.process, {})[event.pid] = None

    def pids_told(self, name: str) -> list[int]:
        """Processes of this name by what they told of their ranks: none of several engines, whose names are alike."""
        if any(place.startswith("DP") for places in self.names.values() for place in places):
            return []
        return [pid for pid, told in self.told.items() if told == name]

    def placed(self) -> Placed:
        by_pid: dict[int, str] = {}
        every: dict[str, None] = {}
        for pid, names in self.names.items():
            # Two places of one number are two hosts', or a torn line's.
            places = [n for n in names if not n.startswith("rank ")] or list(names)
            if pid is not None and len(places) == 1:
                by_pid[pid] = places[0]
            every |= dict.fromkeys(places)
        return Placed(tuple(sorted(every, key=rank_order)), by_pid)
