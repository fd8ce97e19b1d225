"""Samples and events of one launch, read back from its folder; what is missing or torn is no sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.evidence.bundle import LaunchDir, read_lines
from harness.observe.gpu.journal import COLUMNS, lines, row
from harness.observe.gpu.nvml import Field
from harness.observe.memory import MIB, Series
from harness.observe.sampler import COLUMNS as HOST_COLUMNS
from harness.records import GpuEvent, GpuWatch

NONE = Series((), ())


@dataclass(frozen=True)
class HostMemory:
    """Memory of the server's processes together."""

    rss: Series = NONE
    pss: Series = NONE
    """Pages that processes share are counted once; only where every process could be read."""

    @property
    def best(self) -> tuple[str, Series]:
        """The better measure that there is, by its name."""
        return ("PSS", self.pss) if self.pss.times_ns else ("RSS", self.rss)


@dataclass(frozen=True)
class GpuReadings:
    """One GPU's samples."""

    free: Series = NONE
    used: Series = NONE
    states: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By name of a `Field`: times and values; a reading that failed is left out."""
    walls: tuple[tuple[int, int], ...] = ()
    """Monotonic and wall time of the same moments, in ns."""


@dataclass(frozen=True)
class GpuEvidence:
    """What was seen of a launch's GPUs."""

    watch: GpuWatch | None = None
    gpus: Mapping[str, GpuReadings] = field(default_factory=dict)
    """By UUID, in the lane's order."""
    events: tuple[GpuEvent, ...] = ()

    def unreadable(self, *readings: str) -> str | None:
        """The first of these that some GPU did not answer, with its error."""
        for event in self.events:
            if event.kind == "unreadable" and event.reading in (*readings, "gpu"):
                return f"{event.reading} of {event.gpu}: {event.code}"
        return None


def host_memory(folder: LaunchDir) -> HostMemory:
    """Samples of the server's processes, summed."""
    rss: dict[int, int] = {}
    pss: dict[int, int | None] = {}
    for time_ns, _, own, shared in _rows(folder.host_samples_file, HOST_COLUMNS, list):
        rss[time_ns] = rss.get(time_ns, 0) + own
        so_far = pss.get(time_ns, 0)
        pss[time_ns] = None if so_far is None or shared is None else so_far + shared
    return HostMemory(
        _series((t, rss[t]) for t in sorted(rss)),
        _series((t, size) for t in sorted(pss) if (size := pss[t]) is not None),
    )


def gpu_evidence(folder: LaunchDir, watch: GpuWatch | None) -> GpuEvidence:
    """Everything that is known of a launch's GPUs."""
    if watch is None:
        return GpuEvidence()
    uuids = [facts.uuid for facts in watch.facts]
    by_gpu: dict[str, list[Mapping[str, Any]]] = {uuid: [] for uuid in uuids}
    for values in _rows(folder.gpu_samples_file, COLUMNS, lambda line: row(line, uuids)):
        named = dict(zip(COLUMNS, values, strict=True))
        by_gpu.setdefault(named["gpu"], []).append(named)
    return GpuEvidence(
        watch=watch,
        gpus={uuid: _readings(sorted(found, key=lambda r: r["mono_ns"])) for uuid, found in by_gpu.items()},
        events=tuple(read_lines(folder.gpu_events_file, GpuEvent)),
    )


def _readings(rows: Sequence[Mapping[str, Any]]) -> GpuReadings:
    states = {f: tuple((r["mono_ns"], r[f]) for r in rows if r[f] is not None) for f in map(str, Field)}
    return GpuReadings(
        free=_series((r["mono_ns"], r["free_bytes"]) for r in rows if r["free_bytes"] is not None),
        used=_series((r["mono_ns"], r["used_bytes"]) for r in rows if r["used_bytes"] is not None),
        states={name: found for name, found in states.items() if found},
        walls=tuple((r["mono_ns"], r["wall_ns"]) for r in rows if r["wall_ns"] is not None),
    )


def _series(samples: Iterable[tuple[int, int]]) -> Series:
    kept = list(samples)
    return Series(tuple(t for t, _ in kept), tuple(size / MIB for _, size in kept))


def _rows(
    path: Path, columns: Sequence[str], from_journal: Callable[[list[Any]], Sequence[Any]]
) -> Iterable[Sequence[Any]]:
    """Rows of a file of samples, or of the journal that it would have become had the harness lived."""
    journal = path.with_suffix(".journal")
    if not path.is_file() and journal.is_file():
        return [from_journal(line) for line in lines(journal)]
    return _table(path, columns)


def _table(path: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows of a parquet file; a column that an older harness did not write is all None."""
    if not path.is_file():
        return []
    import pyarrow as pa  # noqa: PLC0415  # heavy, and only needed here
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid:  # the harness was killed while it wrote
        return []
    found = [table[c].to_pylist() if c in table.column_names else [None] * table.num_rows for c in columns]
    return list(zip(*found, strict=True))
