"""Whose a process is that NVML lists: the server's, or somebody else's. Read from /proc, no user data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MOST_ANCESTORS = 64


class Owner(StrEnum):
    """Whose process it is."""

    OWN = "own"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"
    """Not to be seen from here: another pid namespace, or just gone."""


@dataclass(frozen=True)
class ProcessFacts:
    """What /proc says of a process."""

    name: str
    parent: int
    session: int
    started: int
    """Clock ticks since boot; with the pid, it names the process for ever."""


def process_facts(pid: int, proc: Path = Path("/proc")) -> ProcessFacts | None:
    """A process of this namespace, or None."""
    try:
        text = (proc / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return ProcessFacts(head.partition("(")[2], int(fields[1]), int(fields[3]), int(fields[19]))


class Family:
    """The server's processes: everything below its roots, or in a session that a root leads.

    A process that was seen to belong stays so when its parent dies under it: workers outlive servers.

    In a pid namespace of its own (`host_pids` false) NVML's numbers may mean other processes, so nobody
    is called foreign, or by a name, before one of the server's own was found under its number.
    """

    def __init__(self, proc: Path = Path("/proc"), *, host_pids: bool = True) -> None:
        self._host_pids = host_pids
        self._proc = proc
        self._roots: dict[int, int | None] = {}
        self._seen: set[tuple[int, int]] = set()

    def add(self, pids: Iterable[int]) -> None:
        """Add roots, by the pids that the host knows them by."""
        for pid in pids:
            facts = process_facts(pid, self._proc)
            self._roots[pid] = facts.started if facts else None
            if facts:
                self._seen.add((pid, facts.started))

    def owner(self, pid: int) -> tuple[Owner, str | None]:
        """Whose it is, and its name; None where that is not to be seen."""
        facts = process_facts(pid, self._proc)
        if facts is None:  # the driver lists a process a moment longer than the kernel does
            return (Owner.OWN if any(pid == known for known, _ in self._seen) else Owner.UNKNOWN), None
        if (pid, facts.started) in self._seen or facts.session in self._roots or self._descends(facts):
            self._seen.add((pid, facts.started))
            self._host_pids = True
            return Owner.OWN, facts.name
        return (Owner.FOREIGN, facts.name) if self._host_pids else (Owner.UNKNOWN, None)

    def _descends(self, facts: ProcessFacts) -> bool:
        parent = facts.parent
        for _ in range(MOST_ANCESTORS):
            above = process_facts(parent, self._proc)
            if above is None or parent <= 1:
                return False
            if (parent, above.started) in self._seen:
                return True
            parent = above.parent
        return False
