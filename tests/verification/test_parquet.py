"""A parquet file is looked at before it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import BundleError
from harness.judge.samples import read_columns
from harness.verification.parquet import HostileParquetError, check_parquet

TYPES = {"mono_ns": "int64", "gpu": "string"}


def written(path: Path, table: dict[str, Any], **how: Any) -> Path:
    pq.write_table(pa.table(table), path, **how)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gpu.parquet"


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_an_honest_one_has_its_shape(path: Path, compression: str, version: str) -> None:
    table = {"mono_ns": list(range(5000)), "gpu": ["GPU-0", "GPU-1"] * 2500}
    written(path, table, compression=compression, data_page_version=version, row_group_size=1000)
    shape = check_parquet(path, TYPES, rows=5000)
    assert (shape.rows, shape.columns) == (5000, ("mono_ns", "gpu"))
    assert read_columns(path, TYPES) == table


def test_one_without_rows_or_without_a_column_is_honest_too(path: Path) -> None:
    assert check_parquet(written(path, {"mono_ns": pa.array([], pa.int64())}), TYPES, rows=0).rows == 0


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"mono_ns": [0.5]}, "is double, not int64"),
        ({"mono_ns": ["1"]}, "is string, not int64"),
        ({"gpu": [1]}, "is int64, not string"),
        ({"mono_ns": [[1]]}, "not int64"),
        ({"other": [1]}, "is int64, not there"),
        ({"mono_ns": [1] * 11}, "11 rows, more than 10"),
        ({"gpu": ["a" * 100_000]}, "the texts of column 'gpu' are too long"),
    ],
    ids=["float", "text-for-number", "number-for-text", "nested", "unknown", "rows", "text"],
)
def test_what_no_sampler_writes_is_named(path: Path, table: dict[str, Any], why: str) -> None:
    with pytest.raises(HostileParquetError, match=why):
        check_parquet(written(path, table), TYPES, rows=10)


def test_a_page_that_unpacks_to_much_is_found_whatever_the_footer_says(path: Path) -> None:
    """Zeros: 80 MB in some kB. Nothing of it is unpacked to find out."""
    written(path, {"mono_ns": np.zeros(10_000_000, np.int64)}, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 100_000
    with pytest.raises(HostileParquetError, match="unpacks to more than 64 MiB"):
        check_parquet(path, TYPES, rows=10_000_000)


def test_a_text_that_is_named_in_every_row_is_kept_once(path: Path) -> None:
    rows = 10_000
    names = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["a" * 900])
    written(path, {"gpu": names}, store_schema=False)
    found = read_columns(path, TYPES)
    assert found is not None
    assert len({id(text) for text in found["gpu"]}) == 1


def test_a_text_that_is_no_name_is_refused(path: Path) -> None:
    with pytest.raises(BundleError, match="a text is longer than"):
        read_columns(written(path, {"gpu": ["a" * 1001]}), TYPES)


def test_a_chunk_that_names_another_column_than_the_schema_is_taken_by_its_place(path: Path) -> None:
    """Which name stands there is a stranger's to choose."""
    content = written(path, {"gpu": ["GPU-0"]}, store_schema=False).read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert content.count(b"gpu", footer) == 2, "in the schema, and in the chunk"
    for other in (b"gpO", b"g\xe3u"):
        path.write_bytes(content[: (place := content.rindex(b"gpu"))] + other + content[place + 3 :])
        assert check_parquet(path, TYPES, rows=1).columns == ("gpu",)
