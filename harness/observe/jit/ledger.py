"""The ledger of one launch: every source with its own lines, side by side and never added up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.records import Record
from harness.words import Arm, Cache, Warmup

REQUESTS_SHOWN = 8


class Source(StrEnum):
    """Who saw it."""

    MONITOR = "monitor"
    """The engine's own lines."""
    COMPILES = "compiles"
    """The compilers' lines in the log, and files that are new in a cache folder."""
    TRACER = "tracer"
    MEMORY = "memory"


class LedgerLine(Record):
    """Equal events of one phase."""

    source: Source
    what: str
    """late JIT, compiled, loaded from disk, loaded onto the device, autotuned, new files, ..."""
    kernel: str | None
    specialisation: str = ""
    phase: str
    late: bool
    """After the monitor was armed or, where there is none, after KV sizing."""
    count: int
    requests: tuple[str, ...] = ()
    """Requests in flight; the first few."""
    ranks: tuple[str, ...] = ()
    seconds: float | None = None
    """Sum of the durations; None where the source knows none."""
    taken_mib: float | None = None
    """The most that one event took of the device's free memory; None where it was not read."""
    place: str = ""
    """Where the first of them stands in the bundle."""


class FirstSecond(Record):
    """Time to the first token of the first prompt of a length, and of a later one that found all compiled."""

    context_tokens: int
    first_s: float | None
    second_s: float | None

    @property
    def extra_s(self) -> float | None:
        """What being first cost."""
        return None if self.first_s is None or self.second_s is None else self.first_s - self.second_s


class FirstPromptMemory(Record):
    """Memory that the first prompt of a length took, and what it did not give back."""

    context_tokens: int
    of: str
    """What was measured: free memory of a GPU, or resident memory of the host's processes."""
    taken_mib: float | None
    kept_mib: float | None


class Ledger(Record):
    """Everything about late kernels that one launch left."""

    launch: str
    arm: Arm
    mode: str
    warmup: Warmup
    cache: Cache
    trace: bool
    late_from: str
    """From when on a kernel is late."""
    monitor: str
    """armed, not armed, or why nobody can tell."""
    tracer: str
    """seen, not seen by this source: why, or not traced."""
    lines: tuple[LedgerLine, ...]
    first_second: tuple[FirstSecond, ...]
    memory: tuple[FirstPromptMemory, ...]

    def late(self, source: Source) -> list[LedgerLine]:
        """Late lines of one source."""
        return [line for line in self.lines if line.late and line.source is source]

    def late_kernels(self, source: Source) -> list[str]:
        """Names of late kernels as one source writes them, sorted."""
        return sorted({line.kernel for line in self.late(source) if line.kernel is not None})


@dataclass(frozen=True)
class Sighting:
    """One event, before equal ones are put together."""

    source: Source
    what: str
    kernel: str | None
    phase: str
    late: bool
    place: str
    specialisation: str = ""
    requests: tuple[str, ...] = ()
    rank: str = ""
    seconds: float | None = None
    taken_mib: float | None = None


def lines(sightings: Iterable[Sighting]) -> tuple[LedgerLine, ...]:
    """Equal sightings of a phase as one line, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Sighting]] = {}
    for s in sightings:
        groups.setdefault((s.source, s.what, s.kernel, s.specialisation, s.phase, s.late), []).append(s)
    return tuple(_line(group) for group in groups.values())


def _line(group: Sequence[Sighting]) -> LedgerLine:
    first = group[0]
    seconds = [s.seconds for s in group if s.seconds is not None]
    requests = dict.fromkeys(request for s in group for request in s.requests)
    return LedgerLine(
        source=first.source,
        what=first.what,
        kernel=first.kernel,
        specialisation=first.specialisation,
        phase=first.phase,
        late=first.late,
        count=len(group),
        requests=tuple(requests)[:REQUESTS_SHOWN],
        ranks=tuple(sorted({s.rank for s in group if s.rank})),
        seconds=sum(seconds) if seconds else None,
        taken_mib=max((s.taken_mib for s in group if s.taken_mib is not None), default=None),
        place=first.place,
    )
