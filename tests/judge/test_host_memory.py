"""Memory of a server without a GPU: labelled as what it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.judge.case import read_case
from harness.judge.read import LaunchEvidence
from harness.judge.verdict import judge_case
from harness.records import Row
from harness.words import Word

from .bundles import Session


def write(launch: LaunchEvidence, pss_mib: int | None) -> None:
    """Two processes that share half of their pages; of one of them PSS may be missing."""
    stop = launch.mark_ns("stop asked")
    assert stop is not None
    times = [m.mono_ns + 1 for m in launch.marks if m.mono_ns < stop]
    second = None if pss_mib is None else pss_mib << 20
    rows = [(t, p, 100 << 20, s) for t in times for p, s in (("vllm:7", 50 << 20), ("worker:8", second))]
    names = ("mono_ns", "process", "rss_bytes", "pss_bytes")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    types = [("mono_ns", pa.int64()), ("process", pa.string()), ("rss_bytes", pa.int64()), ("pss_bytes", pa.int64())]
    pq.write_table(pa.table(columns, schema=pa.schema(types)), launch.folder.host_samples_file)


def rows(folder: Path, *pss_mib: int | None) -> list[Row]:
    """Rows about host memory of a session whose launches were sampled so."""
    case = read_case(Session(folder).build())
    for launch, mib in zip(case.launches.values(), pss_mib, strict=True):
        write(launch, mib)
    return [r for r in judge_case(case).rows if r.name.startswith("host ")]


def test_shared_pages_count_once_where_every_process_could_be_read(tmp_path: Path) -> None:
    found = rows(tmp_path, 50, 50)
    assert found[0].name == "host PSS idle"
    assert {(r.control, r.candidate, r.unit, r.word) for r in found} == {("100", "100", "MiB", Word.NOT_TESTED)}
    assert "proportional set size" in found[0].reason


@pytest.mark.parametrize("pss_mib", [(50, None), (None, None)], ids=["one arm", "both arms"])
def test_two_measures_are_never_compared(tmp_path: Path, pss_mib: tuple[int | None, int | None]) -> None:
    found = rows(tmp_path, *pss_mib)
    assert found[0].name == "host RSS idle"
    assert {(r.control, r.candidate) for r in found} == {("200", "200")}
    assert "counted once per process" in found[0].reason


def test_a_launchs_samples_are_read_once(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).build())
    launch = next(iter(case.launches.values()))
    first = launch.host_memory
    launch.folder.host_samples_file.unlink()
    assert launch.host_memory is first


def test_the_journal_of_a_harness_that_was_killed_is_read(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).build())
    launch = next(iter(case.launches.values()))
    launch.folder.host_samples_file.unlink()
    journal = launch.folder.host_samples_file.with_suffix(".journal")
    journal.write_text('[5,"vllm:7",1048576,null]\n[6,"vllm:7",20', "ascii")
    assert (launch.host_memory.rss.times_ns, launch.host_memory.rss.mib) == ((5,), (1.0,))
    assert launch.host_memory.best[0] == "RSS"
