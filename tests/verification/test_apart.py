"""A file of samples that kills or holds whoever reads it ends a child, and not the verification."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import BundleError
from harness.judge.samples import read_columns
from harness.verification.apart import Reader, reader
from harness.verification.parquet import HostileParquetError, Shape

from .hostile import DIED, damaged

TYPES = {"mono_ns": "int64", "gpu": "string"}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("apart") / "gpu.parquet"
    pq.write_table(pa.table({"mono_ns": list(range(50)), "gpu": ["GPU-0"] * 50}), path)
    return path


@pytest.fixture
def child() -> Iterator[Reader]:
    with reader() as made:
        yield made


def children() -> list[psutil.Process]:
    return [c for c in psutil.Process().children() if "harness.verification.apart" in " ".join(c.cmdline())]


def test_one_child_answers_for_many_files(honest: Path, child: Reader) -> None:
    assert child.check(honest, TYPES, rows=50) == Shape(50, ("mono_ns", "gpu"))
    [first] = children()
    with pytest.raises(HostileParquetError, match="50 rows, more than 10"):
        child.check(honest, TYPES, rows=10)
    assert children() == [first]


def test_no_child_is_begun_for_nothing_and_none_is_left() -> None:
    with reader():
        assert children() == []
    assert children() == []


def test_whatever_is_damaged_is_refused_or_read_and_some_of_it_would_have_killed_us(
    honest: Path, tmp_path: Path, child: Reader
) -> None:
    path = tmp_path / "gpu.parquet"
    refused: list[str] = []
    for seed in range(3000):
        path.write_bytes(damaged(honest.read_bytes(), seed))
        try:
            child.check(path, TYPES, rows=50)
            read_columns(path, TYPES)
        except (HostileParquetError, BundleError) as e:
            assert str(e).isprintable()  # noqa: PT017  # most are refused, and some are read
            refused.append(str(e))
        if seed >= 400 and DIED in refused:
            break
    assert DIED in refused
    assert child.check(honest, TYPES, rows=50).rows == 50, "the next one has a new child"


def test_one_that_is_damaged_and_cut_off_is_refused(honest: Path, tmp_path: Path, child: Reader) -> None:
    path, content = tmp_path / "gpu.parquet", honest.read_bytes()
    for seed in range(200):
        path.write_bytes(damaged(content, seed)[: len(content) * seed // 200])
        with pytest.raises(HostileParquetError) as caught:
            child.check(path, TYPES, rows=50)
        assert str(caught.value).isprintable()


def test_one_that_never_answers_is_given_up(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 600\n", "utf-8")
    sleeper.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(sleeper))
    held = Reader(answer_s=0.2)
    with pytest.raises(HostileParquetError, match=r"a process that read it was not done after 0\.2 s"):
        held.check(honest, TYPES, rows=50)
    assert not [c for c in psutil.Process().children() if c.name() == "sleep"]
