"""Strings inside a parquet file: found and replaced like those of a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.errors import BundleError
from harness.evidence.originals import Removed
from harness.evidence.redaction.kinds import Kind
from harness.evidence.redaction.redactor import Redactor


def parquet_strings(path: Path) -> Iterator[bytes]:
    """Every string of a file, those of its metadata too; a torn file has none that could be read."""
    table = _read(path)
    if table is None:
        return
    yield " ".join(table.schema.names).encode()
    yield from (text for pair in (table.schema.metadata or {}).items() for text in pair)
    for column in table.columns:
        yield from _strings(column)


def redact_parquet(source: Path, target: Path, redactor: Redactor) -> tuple[Removed, ...]:
    """Copy a file, its strings redacted; the same bytes where nothing had to go.

    Raises:
        BundleError: something private stands where it cannot be replaced: not a column of strings.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415  # heavy, and only needed here

    table = _read(source)
    found: Counter[tuple[str, Kind]] = Counter()
    for name, column in () if table is None else zip(table.schema.names, table.columns, strict=True):
        counts = dict(_counted(column))
        for text, n in counts.items():
            for one in redactor.places(text):
                found[name, one.kind] += n
    if not found:
        target.write_bytes(source.read_bytes())
    else:
        for number, field in enumerate(table.schema):
            if not any(name == field.name for name, _ in found):
                continue
            if not _is_text(field.type):
                raise BundleError(f"{source}: column {field.name}: holds a {_kinds(found, field.name)}, but no strings")
            table = table.set_column(number, field, _replaced(table.column(number), redactor.redacted))
        pq.write_table(table, target, compression="zstd")
    return tuple(
        Removed(kind=kind, where=f"column {name}", count=count) for (name, kind), count in sorted(found.items())
    )


def _read(path: Path) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        return pq.read_table(path)
    except pa.ArrowInvalid:  # the harness was killed while it wrote
        return None


def _counted(column: Any) -> Iterator[tuple[bytes, int]]:
    """Distinct values that hold text, as bytes, and how often each stands there."""
    import pyarrow.types as pt  # noqa: PLC0415

    kind = column.type
    if pt.is_dictionary(kind) or pt.is_nested(kind) or pt.is_binary(kind) or pt.is_large_binary(kind) or _is_text(kind):
        counts = Counter(str(v) if not isinstance(v, bytes) else v for v in column.to_pylist() if v is not None)
        for value, n in counts.items():
            yield (value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")), n


def _strings(column: Any) -> Iterator[bytes]:
    yield from (text for text, _ in _counted(column))


def _is_text(kind: Any) -> bool:
    import pyarrow.types as pt  # noqa: PLC0415

    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _kinds(found: Counter[tuple[str, Kind]], column: str) -> str:
    return " and a ".join(str(kind) for name, kind in found if name == column)


def _replaced(column: Any, redacted: Callable[[bytes], bytes]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    instead = {text.decode(): redacted(text).decode() for text in _strings(column)}
    return pa.chunked_array([pa.array([None if v is None else instead[v] for v in column.to_pylist()], column.type)])
