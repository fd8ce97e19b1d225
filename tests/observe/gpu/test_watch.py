"""The sampler as a process: what it answers, and what becomes of it when it, or the driver, fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from harness.errors import SetupFailure
from harness.fakes.gpu_user import register
from harness.fakes.nvml import VARIABLE, Gpu, Host, write_host
from harness.observe.gpu.watch import GpuSampler, SamplerDied, until


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_host(tmp_path, Host((Gpu("GPU-0", unreadable={"ecc": "NOT_SUPPORTED"}), Gpu("GPU-1"))))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def sampler_of(host: Path, *uuids: str, hz: float = 50) -> GpuSampler:
    return GpuSampler(uuids or ("GPU-0",), host / "gpu.parquet", host / "gpu.jsonl", hz)


def child() -> psutil.Process:
    running = [c for c in psutil.Process().children() if c.status() != psutil.STATUS_ZOMBIE]
    [found] = [c for c in running if "harness.observe.gpu" in c.cmdline()]
    return found


def test_it_says_what_the_gpus_are_and_what_they_do_not_tell(host: Path) -> None:
    sampler = sampler_of(host, "GPU-1", "GPU-0")
    sampler.finish()
    second, first = sampler.facts
    assert (second.uuid, first.uuid) == ("GPU-1", "GPU-0")
    assert (first.name, first.driver, first.power_limit_mw) == ("NVIDIA Fake GPU", "fake 575.57.08", 575_000)
    assert (first.ecc, first.unreadable) == (None, {"ecc": "NOT_SUPPORTED"})


def test_a_look_is_of_this_moment_and_among_the_samples(host: Path) -> None:
    sampler = sampler_of(host)
    register(host, os.getpid(), ("GPU-0",), 1234)
    [state] = sampler.look()
    assert state.used_bytes == 1234 << 20
    assert state.processes is not None
    assert [(p.pid, p.owner, p.compute) for p in state.processes] == [(os.getpid(), "foreign", True)]
    sampler.own([os.getpid()])
    [state] = sampler.look()
    assert [p.owner for p in state.processes or ()] == ["own"]
    sampling = sampler.finish()
    assert sampling.asked_hz == 50
    used = pq.read_table(host / "gpu.parquet")["used_bytes"].to_pylist()
    assert 1234 << 20 in used


def test_it_reads_by_itself_and_tells_how_well_that_went(host: Path) -> None:
    sampler = sampler_of(host)
    reads = host / "reads" / "GPU-0"
    assert until(lambda: reads.is_file() and reads.stat().st_size >= 10, 10)
    sampling = sampler.finish()
    assert sampling.readings >= 10
    assert sampling.achieved_period_ms is not None
    assert sampling.achieved_period_ms >= 19
    assert sampling.worst_gap_ms is not None
    assert sampling.worst_gap_ms >= sampling.achieved_period_ms
    assert sampling.cpu_pct is not None


def test_a_gpu_that_is_not_there_is_a_setup_failure(host: Path) -> None:
    with pytest.raises(SetupFailure, match="cannot be watched: NOT_FOUND"):
        sampler_of(host, "GPU-9")


def test_a_driver_that_does_not_answer_is_a_setup_failure(host: Path) -> None:
    write_host(host, Host((Gpu("GPU-0"),), state="silent"))
    with pytest.raises(SetupFailure, match="NVML gives no answer"):
        sampler_of(host)


def test_a_sampler_that_dies_is_told_and_its_samples_are_kept(host: Path) -> None:
    sampler = sampler_of(host)
    sampler.look()
    process = child()
    process.kill()
    assert until(lambda: process.status() == psutil.STATUS_ZOMBIE, 10)
    with pytest.raises(SamplerDied, match="ended with code -9"):
        sampler.look()
    with pytest.raises(SamplerDied):
        sampler.finish()
    assert pq.read_table(host / "gpu.parquet").num_rows >= 2


def test_ctrl_c_does_not_reach_it(host: Path) -> None:
    sampler = sampler_of(host)
    for number in (signal.SIGINT, signal.SIGTERM):
        child().send_signal(number)
    assert sampler.look()
    sampler.finish()
