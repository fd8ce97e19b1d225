"""Memory and CPU time of a server over time: the file, the blind spot, and readings that fail."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from harness.observe.gpu.journal import lines
from harness.observe.sampler import PERIOD_S, PSS_SHARE, HostSampler, Usage, proportional_bytes, usage


class Reading:
    """Returns, or raises, one thing after the other, then nothing; tells when all were taken."""

    def __init__(self, *results: dict[str, int] | Exception) -> None:
        self._results = itertools.chain(results, itertools.repeat({}))
        self._left = len(results)
        self.taken = threading.Event()

    def __call__(self) -> dict[str, Usage]:
        result = next(self._results)
        if self._left == 0:
            self.taken.set()
        self._left -= 1
        if isinstance(result, Exception):
            raise result
        return used(result)


def used(sizes: Mapping[str, int]) -> dict[str, Usage]:
    """Processes by their RSS alone."""
    return {process: Usage(size) for process, size in sizes.items()}


def sample(path: Path, read: Reading) -> list[tuple[str, int]]:
    sampler = HostSampler(read, path, period_s=0.001)
    sampler.start()
    assert read.taken.wait(5)
    sampler.finish()
    table = pq.read_table(path)
    times = table["mono_ns"].to_pylist()
    assert times == sorted(times)
    return list(zip(table["process"].to_pylist(), table["rss_bytes"].to_pylist(), strict=True))


def types(path: Path) -> dict[str, str]:
    return {field.name: str(field.type).removeprefix("large_") for field in pq.read_schema(path)}


def test_every_process_of_every_reading_is_a_row(tmp_path: Path) -> None:
    read = Reading({"vllm:1": 10, "worker:2": 20}, {"vllm:1": 11})
    assert sample(tmp_path / "host.parquet", read) == [("vllm:1", 10), ("worker:2", 20), ("vllm:1", 11)]


@pytest.mark.parametrize("results", [(), ({"vllm:1": 2**40},)], ids=["no row", "large"])
def test_columns_have_their_types_also_without_a_row(tmp_path: Path, results: tuple[dict[str, int], ...]) -> None:
    sample(tmp_path / "host.parquet", Reading(*results))
    assert types(tmp_path / "host.parquet") == {
        "mono_ns": "int64",
        "process": "string",
        "rss_bytes": "int64",
        "pss_bytes": "int64",
        "cpu_ns": "int64",
    }


def test_cpu_time_is_a_column_and_none_where_it_could_not_be_read(tmp_path: Path) -> None:
    sampler = HostSampler(lambda: {"a:1": Usage(10, 7), "b:2": Usage(20)}, tmp_path / "host.parquet", period_s=60)
    sampler.start()
    sampler.read_now()
    sampler.finish()
    assert pq.read_table(tmp_path / "host.parquet")["cpu_ns"].to_pylist()[:2] == [7, None]


def test_what_a_process_uses_is_the_kernels_own_figure() -> None:
    times = os.times()
    name, found = usage(psutil.Process())
    assert name.endswith(f":{os.getpid()}")
    assert found.rss_bytes > 1 << 20
    assert found.cpu_ns is not None
    later = os.times()
    tick = 2 / os.sysconf("SC_CLK_TCK")  # of either part
    assert times.user + times.system - tick <= found.cpu_ns / 1e9 <= later.user + later.system + tick


def test_what_a_process_uses_that_is_gone_is_not_known() -> None:
    with subprocess.Popen(["true"]) as child:
        process = psutil.Process(child.pid)
        child.wait()
    with pytest.raises(psutil.NoSuchProcess):
        usage(process)


@pytest.mark.parametrize("error", [psutil.NoSuchProcess(1), psutil.AccessDenied(1), ProcessLookupError(), OSError()])
def test_a_reading_that_fails_is_a_gap_and_the_next_one_is_taken(tmp_path: Path, error: Exception) -> None:
    read = Reading({"vllm:1": 10}, error, error, {"vllm:1": 12})
    assert sample(tmp_path / "host.parquet", read) == [("vllm:1", 10), ("vllm:1", 12)]


def test_what_rises_and_falls_within_a_period_is_not_seen(tmp_path: Path) -> None:
    # The blind spot is the period: the memory is looked at once in it, whatever happens in between.
    memory = {"vllm:1": 10}
    looked = threading.Event()

    def read() -> dict[str, Usage]:
        looked.set()
        return used(memory)

    sampler = HostSampler(read, tmp_path / "host.parquet", period_s=60)
    sampler.start()
    assert looked.wait(5)
    memory["vllm:1"] = 10**12
    memory["vllm:1"] = 10
    sampler.finish()
    assert pq.read_table(tmp_path / "host.parquet")["rss_bytes"].to_pylist() == [10]


def test_the_period_holds_while_readings_take_time(tmp_path: Path) -> None:
    sampler = HostSampler(lambda: used({"vllm:1": 1}), tmp_path / "host.parquet", period_s=0.05)
    done = threading.Event()
    sampler.start()
    done.wait(0.28)
    sampler.finish()
    times = pq.read_table(tmp_path / "host.parquet")["mono_ns"].to_pylist()
    assert 2 <= len(times) <= 6
    assert all(later - earlier >= 0.045e9 for earlier, later in itertools.pairwise(times))


def test_finishing_does_not_wait_for_the_period(tmp_path: Path) -> None:
    sampler = HostSampler(dict, tmp_path / "host.parquet", period_s=60)
    sampler.start()
    finisher = threading.Thread(target=sampler.finish)
    finisher.start()
    finisher.join(5)
    assert not finisher.is_alive()


def test_memory_is_looked_at_four_times_a_second() -> None:
    assert PERIOD_S == 0.25


def test_shared_pages_are_counted_once_where_the_kernel_says_so(tmp_path: Path) -> None:
    read = Reading({"vllm:1": 10, "worker:2": 20}, {"vllm:1": 10})
    sampler = HostSampler(read, tmp_path / "host.parquet", period_s=0.001, read_pss={"vllm:1": 7, "worker:2": None}.get)
    sampler.start()
    assert read.taken.wait(5)
    sampler.finish()
    first, second, *_ = pq.read_table(tmp_path / "host.parquet").to_pylist()
    assert (first["pss_bytes"], second["pss_bytes"]) == (7, None)


def test_pss_is_read_no_more_often_than_it_may_cost(tmp_path: Path) -> None:
    """A reading that takes 20 ms is taken once per second, however short the period is."""
    asked = []

    def slow(process: str) -> int:
        asked.append(process)
        threading.Event().wait(0.02)
        return 7

    begin = time.monotonic()
    enough = threading.Event()
    readings = itertools.count()

    def read() -> dict[str, Usage]:
        if next(readings) == 20:
            enough.set()
        return used({"vllm:1": 10})

    sampler = HostSampler(read, tmp_path / "host.parquet", period_s=0.001, read_pss=slow)
    sampler.start()
    assert enough.wait(5)
    sampler.finish()
    assert 1 <= len(asked) <= 2 + (time.monotonic() - begin) / (0.02 / PSS_SHARE)
    assert pq.read_table(tmp_path / "host.parquet").num_rows >= 20


def test_pss_that_is_asked_for_is_read(tmp_path: Path) -> None:
    sampler = HostSampler(lambda: used({"vllm:1": 10}), tmp_path / "host.parquet", period_s=60, read_pss=lambda _: 7)
    sampler.start()
    for _ in range(3):
        sampler.read_now()
    sampler.finish()
    assert pq.read_table(tmp_path / "host.parquet")["pss_bytes"].to_pylist().count(7) >= 3


def test_pss_of_this_process_is_above_zero_and_at_most_its_rss() -> None:
    pss = proportional_bytes(f"python:{os.getpid()}")
    assert pss is not None
    assert 1 << 20 < pss <= psutil.Process().memory_info().rss + (64 << 20)
    assert proportional_bytes("gone:4194305") is None


def test_samples_are_on_the_disk_before_the_end(tmp_path: Path) -> None:
    """A harness that is killed leaves them in the journal."""
    read = Reading({"vllm:1": 10}, {"vllm:1": 11})
    sampler = HostSampler(read, tmp_path / "host.parquet", period_s=0.001)
    sampler.start()
    assert read.taken.wait(5)
    kept = list(lines(tmp_path / "host.journal"))
    assert [row[1:3] for row in kept] == [["vllm:1", 10], ["vllm:1", 11]]
    sampler.finish()
    assert not (tmp_path / "host.journal").exists()
