"""What each rank shows by itself: the rank that is worst off and the range over all of them, never a mean.

Without a gate of their own: free memory has its gate per rank, and a kernel that is late on one rank alone is late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from harness.judge import ranks
from harness.judge.case import Case, Cell, completed
from harness.judge.ranks import PerRank, Ranks
from harness.judge.read import LaunchEvidence
from harness.judge.rows.gpu_memory import worst_and_range
from harness.judge.rows.memory import measure_of
from harness.records import Row
from harness.words import Arm, Word

KV, STARTED, HOST = "KV memory by rank", "start-up by rank", "host memory by rank"
CPU, CORE = "CPU time by rank", "share of a core by rank"
MISSES, COMPILES = "compile misses by rank", "late compiles by rank"
NAMED, TRACED = "late JIT by rank (engine's monitor)", "late JIT by rank (tracer)"

CPU_TOLD = (
    "CPU time of the rank in the measured windows (prefill and decode passes); the least is a rank that was kept from "
    "running, while one that computes more does not show: those that wait for it spin"
)


@dataclass(frozen=True)
class Figure:
    """One thing that is looked at on every rank."""

    name: str
    unit: str
    told: str
    read: Callable[[LaunchEvidence, Ranks], PerRank]
    file: str
    """Where it stands in the launch's folder."""
    decimals: int = 0
    most: bool = True
    """The greatest is the worst, and a bound even where a rank does not tell; else the least of all is wanted."""


def figures(measure: str) -> tuple[Figure, ...]:
    """What the launches of a cell show; `measure` is that of the host's memory."""
    at_end = partial(_at_end, measure=measure)
    log = "server.log"
    return (
        Figure(NAMED, "kernels/rank", "kernels that the monitor names late", ranks.late_named, log),
        Figure(MISSES, "misses/rank", "compilations that lines name, up to the stop", ranks.compile_misses, log),
        Figure(COMPILES, "misses/rank", "those that came late", ranks.late_compiles, log),
        Figure(KV, "GiB/rank", "what the rank had or was given for its KV cache", ranks.kv_gib, log, 2, most=False),
        Figure(HOST, "MiB/rank", f"{measure} of the rank's process before the stop", at_end, "host.parquet"),
        Figure(STARTED, "s/rank", "to the line at which ranks are furthest apart", ranks.started_s, log, 1),
        Figure(CPU, "s/rank", CPU_TOLD, ranks.cpu_s, "host.parquet", 2, most=False),
    )


CORE_SHARE = Figure(CORE, "%/rank", "the same, of the passes' own time", ranks.core_share, "host.parquet", most=False)
TRACER = Figure(TRACED, "kernels/rank", "kernels that the tracer saw late", ranks.late_traced, "trace")


def rows(case: Case) -> Iterator[Row]:
    """Nothing for a launch of a single rank: its figures are those of the launch."""
    for cell in case.cells:
        for figure in figures(measure_of(cell)):
            yield from _rows(cell, figure)
    for cell in case.traced:
        yield from _rows(cell, TRACER)


def _rows(cell: Cell, figure: Figure) -> Iterator[Row]:
    known = {x.folder.id: ranks.ranks(x) for _, side in cell.arms() for x in side}
    if all(len(found.names) < 2 for found in known.values()):
        return
    sides = {arm: [(x, figure.read(x, known[x.folder.id])) for x in side] for arm, side in cell.arms()}
    texts = {arm: _text(figure, [found for _, found in side]) for arm, side in sides.items()}
    every = [pair for side in sides.values() for pair in side]
    has = any(text is not None for text in texts.values())
    yield cell.row(
        figure.name,
        Word.NOT_TESTED,
        "; ".join(filter(None, (figure.told, _worst(figure, sides[Arm.CANDIDATE]) if has else "", _silent(every))))
        + ("; no gate" if has else ""),
        control=texts[Arm.CONTROL],
        candidate=texts[Arm.CANDIDATE],
        unit=figure.unit,
        sources=tuple(f"launches/{x.folder.id}/{figure.file}" for x, found in every if _known(figure, found)),
    )


def _known(figure: Figure, found: PerRank) -> list[float] | None:
    """Figures of the ranks that tell; none where the least is wanted and a rank that does not tell may have less."""
    values = [v for v in found.values() if v is not None]
    return values if values and (figure.most or len(values) == len(found)) else None


def _text(figure: Figure, launches: list[PerRank]) -> str | None:
    return worst_and_range([_known(figure, x) for x in launches], most=figure.most, decimals=figure.decimals)


def _worst(figure: Figure, side: list[tuple[LaunchEvidence, PerRank]]) -> str:
    """Which rank of the candidate it is, where they are not all alike."""
    found = [(v, rank, x) for x, per in side if _known(figure, per) for rank, v in per.items() if v is not None]
    if not found or min(v for v, _, _ in found) == max(v for v, _, _ in found):
        return ""
    _, rank, launch = (max if figure.most else min)(found, key=lambda item: item[0])
    return f"worst of the candidate: {rank} in {launch.folder.id}"


def _silent(every: list[tuple[LaunchEvidence, PerRank]]) -> str:
    """The first launch of which some ranks tell nothing."""
    for launch, found in every:
        silent = [rank for rank, v in found.items() if v is None]
        if silent:
            return f"not told by {', '.join(silent)} in {launch.folder.id}"
    return ""


def _at_end(launch: LaunchEvidence, known: Ranks, measure: str) -> PerRank:
    # Of a server that died, a process may have been gone for long before the stop.
    stop = launch.mark_ns("stop asked") if completed(launch) else None
    return ranks.host_mib(launch, known, lambda series: series.last_before(stop), measure)
