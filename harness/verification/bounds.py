"""How much memory a bundle will take, before any of it is parsed: a stranger's must not take all there is.

Sizes are counted in the raw bytes, a piece at a time: values of JSON by the commas and brackets between them, lines
of a scrape, events of a log, cells of a table. The weights are what the judge was seen to keep of each, rounded up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from harness.errors import RefusedBundle
from harness.observe.log import events, read_chunks
from harness.verification.apart import Reader, reader
from harness.verification.files import FileKind, Form, kind_of
from harness.verification.parquet import HostileParquetError
from harness.verification.subject import Found, Subject

DOCUMENT_BYTES = 32 << 20
LINE_BYTES = 4 << 20
VALUES = 400_000
"""In one document or one line."""
ROWS = 2_000_000
"""Of a table: a day of one GPU at 20 Hz."""

VALUE_WEIGHT = 150
"""Bytes per value of a record: 43 (token ids) to 147 (events of a GPU) were measured."""
EVENT_WEIGHT = 800
"""Per event of a log, beside its text."""
SCRAPE_LINE_WEIGHT = 1200
CELL_WEIGHT = 100
TEXT_WEIGHT = 6
"""Per byte of text that is looked through as a whole."""

SEPARATORS = (b",", b"[", b"{")


def check_bounds(subject: Subject) -> Found:
    """What the evidence will take of memory at most. Nothing of it is parsed before.

    Raises:
        RefusedBundle: more than it may, or a file of a kind that is bounded holds too much at once.
    """
    kept, passing = 0, defaultdict[str, int](int)
    with reader() as apart:
        weights: dict[Form, Callable[[Path, str, FileKind], Weight]] = {
            **WEIGHTS,
            Form.SAMPLES: partial(_samples, apart),
        }
        for name in subject.files:
            kind = kind_of(name)
            if kind is None or kind.form not in weights:
                continue
            weight, stays = weights[kind.form](subject.root / name, name, kind)
            kept += weight if stays else 0
            passing[name.rpartition("/")[0]] += 0 if stays else weight
            needed = kept + max(passing.values(), default=0)
            if needed > subject.memory_mib << 20:
                why = f"with it the evidence would take more than {subject.memory_mib} MiB of memory"
                raise RefusedBundle(f"{name}: {why}; if you trust whom it is from, give --memory-mib")
    total = kept + max(passing.values(), default=0)
    return Found(told=(f"the evidence takes at most {(total >> 20) + 1} MiB of memory to be judged",))


Weight = tuple[int, bool]
"""Bytes, and whether they stay in memory while other launches are read."""


def _document(path: Path, name: str, kind: FileKind) -> Weight:
    size = path.stat().st_size
    if size > DOCUMENT_BYTES:
        raise _too_much(name, f"has {size:,} bytes, more than the {DOCUMENT_BYTES:,} of {kind.form}")
    values = 0
    with path.open("rb") as stream:
        for chunk in read_chunks(stream):
            values += _values(chunk)
    if values > VALUES:
        raise _too_much(name, f"holds {values:,} values, more than {VALUES:,}")
    return VALUE_WEIGHT * values, kind.form is Form.RECORD


def _lines(path: Path, name: str, _: FileKind) -> Weight:
    total = 0
    with path.open("rb") as stream:
        for number, (size, values) in enumerate(_measured(stream), 1):
            if size > LINE_BYTES or values > VALUES:
                raise _too_much(
                    f"{name}:{number}", f"is a line of {LINE_BYTES:,} bytes or {VALUES:,} values, or longer"
                )
            total += values
    return VALUE_WEIGHT * total, True


def _measured(stream: BinaryIO) -> Iterator[tuple[int, int]]:
    """Bytes and values of each line, as far as is allowed."""
    while line := stream.readline(LINE_BYTES + 1):
        yield len(line), _values(line)


def _scrape(path: Path, name: str, _: FileKind) -> Weight:
    size = path.stat().st_size
    if size > DOCUMENT_BYTES // 4:
        raise _too_much(name, f"has {size:,} bytes, more than a scrape has")
    with path.open("rb") as stream:
        lines = sum(line.startswith((b"vllm:", b"process_start")) for line in stream)
    return SCRAPE_LINE_WEIGHT * lines, False


def _log(path: Path, name: str, _: FileKind) -> Weight:
    del name
    with path.open("rb") as stream:
        return sum(EVENT_WEIGHT + len(e.text) for e in events(read_chunks(stream))), True


def _samples(apart: Reader, path: Path, name: str, kind: FileKind) -> Weight:
    try:
        shape = apart.check(path, kind.types, rows=ROWS)
    except HostileParquetError as e:
        raise _too_much(name, str(e)) from None
    return CELL_WEIGHT * shape.rows * len(shape.columns), True


def _output(path: Path, name: str, _: FileKind) -> Weight:
    del name
    return TEXT_WEIGHT * path.stat().st_size, False


def _values(data: bytes) -> int:
    return sum(map(data.count, SEPARATORS))


def _too_much(name: str, what: str) -> RefusedBundle:
    return RefusedBundle(f"{name}: {what}; no session writes that")


WEIGHTS: dict[Form, Callable[[Path, str, FileKind], Weight]] = {
    Form.RECORD: _document,
    Form.JSON: _document,
    Form.TRUTH: _document,
    Form.LOCK: _document,
    Form.LINES: _lines,
    Form.TIMES: _lines,
    Form.TRACE: _lines,
    Form.JOURNAL: _lines,
    Form.SCRAPE: _scrape,
    Form.LOG: _log,
    Form.OUTPUT: _output,
}
