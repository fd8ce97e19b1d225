"""What the sampler writes while it runs: a line per reading, so that whatever ends it, all but a second is kept.

A line is a JSON array, its first item the kind; null is a value that could not be read:

    ["memory", mono_ns, gpu, total, free, used, reserved]
    ["state", mono_ns, wall_ns, gpu, *values of `Field` in its order]
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from harness.evidence.pipe import removed
from harness.evidence.stream import growing_text, whole
from harness.observe.gpu.nvml import Field

MEMORY_COLUMNS = ("total_bytes", "free_bytes", "used_bytes", "reserved_bytes")
COLUMNS = ("mono_ns", "wall_ns", "gpu", *MEMORY_COLUMNS, *map(str, Field))
"""Columns of gpu.parquet: `gpu` is a UUID, everything else int64; null = not read in this row."""
ROWS_AT_ONCE = 50_000


class Journal:
    """A file of lines that several threads append to."""

    def __init__(self, path: Path) -> None:
        self._stream: IO[str] = growing_text(path, encoding="ascii")
        self._lock = threading.Lock()

    def add(self, line: Sequence[Any]) -> None:
        """Append a line; it is on its way to the disk with the next `flush`."""
        text = json.dumps(line, separators=(",", ":")) + "\n"
        with self._lock:
            self._stream.write(text)

    def flush(self) -> None:
        """Hand everything to the kernel, where it survives the sampler."""
        with self._lock:
            self._stream.flush()

    def close(self) -> None:
        """Flush and close."""
        with self._lock:
            self._stream.close()


def lines(path: Path) -> Iterator[list[Any]]:
    """Lines of a journal; a torn last one is left out."""
    with path.open("rb") as stream:
        for line in stream:
            if line.endswith(b"\n"):
                yield json.loads(line)


def to_parquet(journal: Path, uuids: Sequence[str], path: Path) -> None:
    """Rewrite a journal as typed columns, a piece at a time, and remove it once that is on the disk.

    Raises:
        OSError: the disk is full; the journal stays.
    """
    import pyarrow as pa  # noqa: PLC0415  # heavy, and paid once a launch is over
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema = pa.schema([(name, pa.string() if name == "gpu" else pa.int64()) for name in COLUMNS])
    with whole(path) as target, pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for rows in _pieces(journal, uuids):
            columns = list(zip(*rows, strict=True))
            writer.write_table(pa.table(dict(zip(COLUMNS, map(list, columns), strict=True)), schema=schema))
    removed(journal)


def _pieces(journal: Path, uuids: Sequence[str]) -> Iterator[list[list[Any]]]:
    rows: list[list[Any]] = []
    for line in lines(journal):
        rows.append(row(line, uuids))
        if len(rows) >= ROWS_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows


def row(line: list[Any], uuids: Sequence[str]) -> list[Any]:
    """A line as a row of `COLUMNS`."""
    if line[0] == "memory":
        _, mono_ns, gpu, *values = line
        return [mono_ns, None, uuids[gpu], *values, *[None] * len(Field)]
    _, mono_ns, wall_ns, gpu, *values = line
    return [mono_ns, wall_ns, uuids[gpu], *[None] * len(MEMORY_COLUMNS), *values]
