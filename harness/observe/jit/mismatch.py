"""Specialisation mismatch: a kernel that warm-up compiled for other constants than serving then needed.

This is the silent bug that this project exists to catch: a warm-up reads a missing attribute, falls back to
a size of 1, and compiles a kernel that nobody ever launches, while the needed one is compiled under a
user's prompt. A process keeps what it has compiled, so whatever it compiles while serving is what its
warm-up did not cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.observe.jit.trace import TraceEvent

Specialisation: TypeAlias = tuple[tuple[str, str], ...]
"""Constexprs by name, in the order of the kernel's parameters."""

SHOWN = 4
"""Specialisations of one side that are written out."""


@dataclass(frozen=True)
class Mismatch:
    """One kernel, with both sets; over all processes in which they differ."""

    kernel: str
    warmed: tuple[Specialisation, ...]
    served: tuple[Specialisation, ...]
    """Those that no warm-up of the same process covered."""
    ranks: tuple[str, ...]
    places: tuple[str, ...]

    def __str__(self) -> str:
        """`kernel: warm-up SIZE=1; serving SIZE=4`, with the constants that differ only."""
        differing = _differing([*self.warmed, *self.served])
        return f"{self.kernel}: warm-up {_text(self.warmed, differing)}; serving {_text(self.served, differing)}"


@dataclass
class _Kernel:
    """What one process did with one kernel."""

    warmed: dict[Specialisation, str] = field(default_factory=dict)
    served: dict[Specialisation, str] = field(default_factory=dict)
    rank: str = ""


def specialisation(event: TraceEvent) -> Specialisation:
    """The constants that an event's kernel was compiled for."""
    return tuple((name, str(value)) for name, value in event.constexprs.items())


def text(found: Specialisation) -> str:
    """`SIZE=4 INTERLEAVE=64`."""
    return " ".join(f"{name}={value}" for name, value in found)


def mismatches(events: Iterable[tuple[TraceEvent, bool]]) -> list[Mismatch]:
    """Kernels whose warm-up does not cover what serving used.

    Args:
        events: each with whether it fell into serving, in the order of their begin.
    """
    seen: dict[tuple[int, str, str, str], _Kernel] = {}
    for event, serving in events:
        if event.event != "compile" or event.error is not None or not event.constexprs:
            continue
        kernel = seen.setdefault((event.pid, event.backend, event.module, event.kernel), _Kernel())
        kernel.rank = kernel.rank or rank_text(event)
        side = kernel.served if serving else kernel.warmed
        side.setdefault(specialisation(event), event.place)
    merged: dict[tuple[str, str, str], list[_Kernel]] = {}
    for (_, *name), kernel in seen.items():
        uncovered = {s: place for s, place in kernel.served.items() if s not in kernel.warmed}
        if kernel.warmed and uncovered:
            merged.setdefault((name[0], name[1], name[2]), []).append(_Kernel(kernel.warmed, uncovered, kernel.rank))
    return [_merged(name[2], processes) for name, processes in merged.items()]


def rank_text(event: TraceEvent) -> str:
    """`rank 0`, or the process where its rank is not known."""
    return f"rank {event.rank}" if event.rank is not None else f"pid {event.pid}"


def _merged(kernel: str, processes: Sequence[_Kernel]) -> Mismatch:
    warmed = {s: p for process in processes for s, p in process.warmed.items()}
    served = {s: p for process in processes for s, p in process.served.items()}
    return Mismatch(
        kernel=kernel,
        warmed=tuple(warmed),
        served=tuple(served),
        ranks=tuple(dict.fromkeys(p.rank for p in processes)),
        places=(*warmed.values(), *served.values()),
    )


def _differing(every: Sequence[Specialisation]) -> set[str]:
    """Names whose value is not the same everywhere."""
    values: dict[str, set[str | None]] = {name: set() for found in every for name, _ in found}
    for found in every:
        present = dict(found)
        for name, seen in values.items():
            seen.add(present.get(name))
    return {name for name, seen in values.items() if len(seen) > 1}


def _text(found: Sequence[Specialisation], names: set[str]) -> str:
    texts = list(dict.fromkeys(text(tuple(x for x in one if x[0] in names)) or "-" for one in found))
    more = f", and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more
