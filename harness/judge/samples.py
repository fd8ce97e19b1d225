"""Samples and events of one launch, read back from its folder; what is missing or torn is no sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import BundleError
from harness.evidence.bundle import LaunchDir, read_lines
from harness.evidence.names import printable
from harness.observe.cpu import CpuTime
from harness.observe.gpu.journal import COLUMNS, lines, row
from harness.observe.gpu.nvml import Field
from harness.observe.memory import MIB, Series
from harness.observe.sampler import COLUMNS as HOST_COLUMNS
from harness.records import GpuEvent, GpuWatch

NONE = Series((), ())
TEXTS = ("gpu", "process")
"""Columns of text; all others hold integers."""
TEXT_CHARACTERS = 1000
PID_DIGITS = 12


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
class ProcessReadings:
    """Memory and CPU time of one process of the server."""

    pid: int
    """On the host."""
    name: str
    """The last one that it went by: a worker is named before it has its rank."""
    rss: Series = NONE
    pss: Series = NONE
    cpu: CpuTime = field(default_factory=CpuTime)


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
    columns = _columns(folder.host_samples_file, HOST_COLUMNS, _host_row)
    for time_ns, _, own, shared, _ in zip(*(columns[name] for name in HOST_COLUMNS), strict=True):
        rss[time_ns] = rss.get(time_ns, 0) + own
        so_far = pss.get(time_ns, 0)
        pss[time_ns] = None if so_far is None or shared is None else so_far + shared
    return HostMemory(
        _series([(t, rss[t]) for t in sorted(rss)]),
        _series([(t, size) for t in sorted(pss) if (size := pss[t]) is not None]),
    )


def process_readings(folder: LaunchDir) -> tuple[ProcessReadings, ...]:
    """The same samples, process by process, in order of their pids."""
    names: dict[int, str] = {}
    readings: dict[int, list[tuple[int, int, int | None, int | None]]] = {}
    columns = _columns(folder.host_samples_file, HOST_COLUMNS, _host_row)
    for time_ns, process, own, shared, cpu_ns in zip(*(columns[name] for name in HOST_COLUMNS), strict=True):
        name, _, number = str(process).rpartition(":")
        if number.isascii() and number.isdigit() and len(number) < PID_DIGITS:
            before = names.setdefault(int(number), name)
            if not before.startswith(name):  # a process that ends may lose the end of its name
                names[int(number)] = name
            readings.setdefault(int(number), []).append((time_ns, own, shared, cpu_ns))
    for found in readings.values():
        found.sort(key=lambda reading: reading[0])
    return tuple(
        ProcessReadings(
            pid,
            names[pid],
            _series([(t, own) for t, own, _, _ in found]),
            _series([(t, shared) for t, _, shared, _ in found if shared is not None]),
            CpuTime.of([(t, cpu_ns) for t, _, _, cpu_ns in found if cpu_ns is not None]),
        )
        for pid, found in sorted(readings.items())
    )


def gpu_evidence(folder: LaunchDir, watch: GpuWatch | None) -> GpuEvidence:
    """Everything that is known of a launch's GPUs."""
    if watch is None:
        return GpuEvidence()
    uuids = [facts.uuid for facts in watch.facts]
    columns = _columns(folder.gpu_samples_file, COLUMNS, lambda line: row(line, uuids))
    return GpuEvidence(
        watch=watch,
        gpus={uuid: _readings(columns, uuid) for uuid in uuids},
        events=tuple(read_lines(folder.gpu_events_file, GpuEvent)),
    )


def _host_row(line: list[Any]) -> list[Any]:
    """A line of the host sampler's journal; an older harness wrote none of CPU time."""
    return [*line, None] if len(line) == len(HOST_COLUMNS) - 1 else line


def _readings(columns: Mapping[str, Sequence[Any]], uuid: str) -> GpuReadings:
    # Two threads wrote them, so neighbours may stand in the wrong order.
    places = sorted((n for n, gpu in enumerate(columns["gpu"]) if gpu == uuid), key=columns["mono_ns"].__getitem__)

    def known(name: str) -> list[tuple[int, int]]:
        times, values = columns["mono_ns"], columns[name]
        return [(times[n], values[n]) for n in places if values[n] is not None]

    states = {name: tuple(known(name)) for name in map(str, Field)}
    return GpuReadings(
        free=_series(known("free_bytes")),
        used=_series(known("used_bytes")),
        states={name: found for name, found in states.items() if found},
        walls=tuple(known("wall_ns")),
    )


def _series(samples: Sequence[tuple[int, int]]) -> Series:
    return Series(tuple(t for t, _ in samples), tuple(size / MIB for _, size in samples))


def _columns(
    path: Path, names: Sequence[str], from_journal: Callable[[list[Any]], Sequence[Any]]
) -> Mapping[str, Sequence[Any]]:
    """Columns of a file of samples, or of the journal that it would have become had the harness lived."""
    journal = path.with_suffix(".journal")
    nothing: Mapping[str, Sequence[Any]] = dict.fromkeys(names, ())
    if not path.is_file():
        try:
            rows = [from_journal(line) for line in lines(journal)] if journal.is_file() else []
            return dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else nothing
        except (ValueError, TypeError, IndexError, RecursionError) as e:
            raise BundleError(f"{journal}: not what a sampler writes ({e})") from None
    found = read_columns(path, {name: "string" if name in TEXTS else "int64" for name in names})
    if found is None:  # the harness was killed while it wrote
        return nothing
    length = len(next(iter(found.values()), ()))
    # A column that an older harness did not write is one that was not read.
    return {n: found.get(n, [None] * length) for n in names}


def read_columns(path: Path, types: Mapping[str, str]) -> Mapping[str, Sequence[Any]] | None:
    """The columns that a file of samples has of these; None for one that was not written to its end.

    Each text is kept once, however often it stands there: a file of some bytes can name a long one in every row.

    Raises:
        BundleError: a column is of another type, or a text is none that a sampler writes.
    """
    import pyarrow as pa  # noqa: PLC0415  # heavy, and only needed here

    try:
        table = table_of(path, types)
        return {name: _values(table[name], kind) for name, kind in types.items() if name in table.column_names}
    except pa.ArrowInvalid:
        return None
    except (pa.ArrowException, OSError, ValueError, LookupError) as e:
        raise BundleError(f"{path}: not what a sampler writes ({printable(str(e))})") from None


def table_of(path: Path, types: Mapping[str, str]) -> Any:
    """All of a file of samples as pyarrow's table, texts as dictionaries.

    Raises:
        ArrowException, OSError, ValueError: whatever pyarrow makes of a file that is none.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415  # heavy

    texts = [name for name, kind in types.items() if kind == "string"]
    return pq.read_table(path, read_dictionary=texts, use_threads=False, pre_buffer=False)  # small: threads cost more


def _values(column: Any, kind: str) -> Sequence[Any]:
    import pyarrow as pa  # noqa: PLC0415

    is_text = pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)
    if not (is_text if kind == "string" else pa.types.is_int64(column.type)):
        raise ValueError(f"a column is {column.type}, not {kind}")
    values: Sequence[Any] = _texts(column) if is_text else column.to_pylist()
    return values


def _texts(column: Any) -> list[str | None]:
    found: list[str | None] = []
    for chunk in column.chunks:
        values = chunk.dictionary
        if any(len(value) > TEXT_CHARACTERS for value in (v.as_buffer() for v in values if v.is_valid)):
            raise ValueError(f"a text is longer than {TEXT_CHARACTERS} bytes")
        known = values.to_pylist()
        found += [None if n is None else known[n] for n in chunk.indices.to_pylist()]
    return found
