"""A parquet file before it is read: its footer, its columns, and what its pages will unpack to.

The footer says how much there is, and a stranger writes the footer. What a reader really allocates is what each
page's own header says (uncompressed_page_size), so those are read here, and added up, before pyarrow sees the file.
Format: https://parquet.apache.org/docs/file-format/ ; headers are Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from harness.evidence.names import printable

MAGIC = b"PAR1"
FOOTER_BYTES = 1 << 20
"""A file of ours has some 10 KB: 26 columns per group of 50,000 rows."""
PAGE_HEADER_BYTES = 1 << 16
PAGES = 10_000
TEXT_BYTES = 1 << 16
"""All different texts of a column together: UUIDs of GPUs, names of processes."""
UNPACKED_BYTES = 64 << 20


class HostileParquetError(ValueError):
    """The file is not what a sampler writes; the text says why."""


@dataclass(frozen=True)
class Shape:
    """How much is in a file."""

    rows: int
    columns: tuple[str, ...]


def check_parquet(path: Path, types: Mapping[str, str], *, rows: int) -> Shape:
    """Look at a file without unpacking any of it.

    Args:
        path: the file.
        types: column -> `int64` or `string`; a file may lack some of them, and has no others.
        rows: how many it may have.

    Raises:
        HostileParquetError: it is no such file, or unpacks to more than a sampler writes.
    """
    import pyarrow as pa  # noqa: PLC0415  # heavy
    import pyarrow.parquet as pq  # noqa: PLC0415

    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - 8))
        tail = stream.read(8)
        if size < 12 or tail[4:] != MAGIC:
            raise HostileParquetError("is no parquet file")
        footer = int.from_bytes(tail[:4], "little")
        if footer > min(FOOTER_BYTES, size - 12):
            raise HostileParquetError(f"its footer has {footer:,} bytes")
        try:
            about = pq.read_metadata(path)
            schema = about.schema.to_arrow_schema()
        except (pa.ArrowException, OSError, ValueError, UnicodeDecodeError) as e:
            raise HostileParquetError(f"its footer cannot be read ({printable(str(e))})") from None
        for name, kind in zip(schema.names, schema.types, strict=True):
            if types.get(name) != str(kind):
                raise HostileParquetError(f"column {name[:60]!r} is {kind}, not {types.get(name, 'there')}")
        if len(set(schema.names)) < len(schema.names):
            raise HostileParquetError("it has a column twice")
        if about.num_rows > rows:
            raise HostileParquetError(f"it has {about.num_rows:,} rows, more than {rows:,}")
        # A column chunk repeats its column's name, and a stranger writes that too: the schema's counts.
        _check_pages(stream, about, size - 8 - footer, {name: types[name] for name in schema.names})
    return Shape(about.num_rows, tuple(schema.names))


def _check_pages(stream: BinaryIO, about: Any, end: int, types: Mapping[str, str]) -> None:
    unpacked = pages = 0
    if about.num_columns != len(types):
        raise HostileParquetError(f"it has {about.num_columns} columns, and a schema of {len(types)}")
    for group in range(about.num_row_groups):
        for place, (name, kind) in enumerate(types.items()):
            column = about.row_group(group).column(place)
            if about.row_group(group).num_rows == column.num_values == 0:
                continue  # it has no pages, and none is looked for
            begin = column.data_page_offset
            if column.dictionary_page_offset is not None:
                begin = min(begin, column.dictionary_page_offset)
            if not 0 <= begin <= begin + column.total_compressed_size <= end:
                raise HostileParquetError(f"column {name!r} lies outside the file")
            texts = 0
            for size in _pages(stream, begin, column.total_compressed_size):
                unpacked, pages, texts = unpacked + size, pages + 1, texts + size
                if unpacked > UNPACKED_BYTES or pages > PAGES:
                    raise HostileParquetError(f"it unpacks to more than {UNPACKED_BYTES >> 20} MiB, or {PAGES:,} pages")
                if kind == "string" and texts > TEXT_BYTES + 4 * about.row_group(group).num_rows:
                    raise HostileParquetError(f"the texts of column {name!r} are too long")


def _pages(stream: BinaryIO, begin: int, length: int) -> Iterator[int]:
    """Bytes that each page of a column unpacks to."""
    end = begin + length
    while begin < end:
        stream.seek(begin)
        header = _Compact(stream.read(min(PAGE_HEADER_BYTES, end - begin)))
        fields = header.struct()
        unpacked, packed = fields.get(2), fields.get(3)
        if not isinstance(unpacked, int) or not isinstance(packed, int) or unpacked < 0 or packed < 0:
            raise HostileParquetError(f"the page at byte {begin:,} has no size")
        yield unpacked
        begin += header.place + packed
    if begin != end:
        raise HostileParquetError(f"its pages end at byte {begin:,}, not {end:,}")


class _Compact:
    """Thrift's compact protocol, as far as page headers need it: numbers are kept, the rest is skipped."""

    DEPTH = 8

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def struct(self, depth: int = 0) -> dict[int, int | None]:
        """Fields of a struct by their number; None for one that is no number."""
        fields: dict[int, int | None] = {}
        number = 0
        while kind := self._byte():
            number = number + (kind >> 4) if kind >> 4 else self._zigzag()
            fields[number] = self._value(kind & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> int | None:
        if depth > self.DEPTH:
            raise HostileParquetError("a page's header is nested too deep")
        match kind:
            case 1 | 2:
                return None  # a boolean is its own type
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                self._skip(struct.calcsize("d"))
            case 8:
                self._skip(self._varint())
            case 9 | 10:
                head = self._byte()
                for _ in range(self._varint() if head >> 4 == 15 else head >> 4):
                    self._value(3 if head & 15 in (1, 2) else head & 15, depth + 1)  # in a list it has a byte
            case 12:
                self.struct(depth + 1)
            case _:
                raise HostileParquetError("a page's header cannot be read")
        return None

    def _byte(self) -> int:
        self._skip(1)
        return self._data[self.place - 1]

    def _skip(self, size: int) -> None:
        self.place += size
        if self.place > len(self._data):
            raise HostileParquetError("a page's header is torn")

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise HostileParquetError("a page's header holds a number without end")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
