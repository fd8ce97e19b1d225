"""The fake NVML: memory comes and goes with the processes that registered, and faults come when asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.fakes.gpu_user import Registration, register, wait_until_seen
from harness.fakes.nvml import VARIABLE, FakeNvml, Gpu, Host, fake_nvml, write_host
from harness.observe.gpu.nvml import Field, NoDriver, Unreadable

MIB = 1 << 20


def nvml(folder: Path, *gpus: Gpu, state: str = "ok") -> FakeNvml:
    write_host(folder, Host(gpus or (Gpu("GPU-0"),), state=state))
    return FakeNvml(folder)


def used_mib(fake: FakeNvml) -> int:
    return fake.device("GPU-0").memory().used // MIB


def test_memory_is_held_for_as_long_as_its_process_lives(tmp_path: Path) -> None:
    fake = nvml(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        register(tmp_path, process.pid, ("GPU-0",), 700)
        assert used_mib(fake) == 700
        assert [u.pid for u in fake.device("GPU-0").users()] == [process.pid]
        process.kill()
    assert used_mib(fake) == 0
    assert fake.device("GPU-0").users() == ()


def test_memory_may_outlive_its_process_by_a_given_time_and_is_then_nobodys(tmp_path: Path) -> None:
    fake = nvml(tmp_path)
    Registration(4_194_305, 0.0, ("GPU-0",), 700, linger_s=600).write(tmp_path)
    assert (used_mib(fake), fake.device("GPU-0").users()) == (700, ())
    Registration(4_194_305, 0.0, ("GPU-0",), 700, linger_s=600, died=0.0 - 600).write(tmp_path)
    assert used_mib(fake) == 0


def test_a_death_may_be_noted_by_several_threads_at_one_time(tmp_path: Path) -> None:
    """A sampler reads memory in one thread and all else in another."""
    nvml(tmp_path)
    dead = Registration(4_194_305, 0.0, ("GPU-0",), 700, linger_s=600)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: dead.holds(tmp_path), range(400)))


def test_what_a_process_does_to_a_gpu_is_seen_on_its_own_only(tmp_path: Path) -> None:
    fake = nvml(tmp_path, Gpu("GPU-0"), Gpu("GPU-1"))
    register(tmp_path, os.getpid(), ("GPU-1",), 700, settings={"clock_reasons": 64, "power_limit_w": 400, "xid": 31})
    one, other = fake.device("GPU-0"), fake.device("GPU-1")
    assert [d.read(Field.CLOCK_REASONS) for d in (one, other)] == [0, 64]
    assert [d.read(Field.POWER_LIMIT_MW) for d in (one, other)] == [575_000, 400_000]
    assert (one.xids(), other.xids(), other.xids()) == ((), (31,), ())


def test_a_field_fails_as_it_is_told_to_and_the_others_do_not(tmp_path: Path) -> None:
    device = nvml(tmp_path, Gpu("GPU-0", unreadable={"power_mw": "NOT_SUPPORTED"})).device("GPU-0")
    with pytest.raises(Unreadable, match="NOT_SUPPORTED"):
        device.read(Field.POWER_MW)
    assert device.read(Field.TEMPERATURE_C) == 41


def test_a_gpu_that_is_lost_answers_nothing(tmp_path: Path) -> None:
    fake = nvml(tmp_path)
    register(tmp_path, os.getpid(), ("GPU-0",), 700, settings={"lost": 1})
    device = fake.device("GPU-0")
    for question in (device.memory, device.users, device.xids, lambda: device.read(Field.POWER_MW)):
        with pytest.raises(Unreadable, match="GPU_IS_LOST"):
            question()


def test_a_series_is_replayed_in_its_own_time(tmp_path: Path) -> None:
    write_host(tmp_path, Host((Gpu("GPU-0", series=((0.0, 500.0), (1.5, 52.0), (1.6, 480.0))),)))
    times = [0.0, 0.0, 1.49, 1.5, 1.59, 1.6, 999.0]  # the first is of its opening
    fake = FakeNvml(tmp_path, iter(times).__next__)
    free = [fake.device("GPU-0").memory().free // MIB for _ in times[1:]]
    assert free == [500, 500, 52, 52, 480, 480]


def test_it_stands_where_the_environment_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert fake_nvml() is None
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    with pytest.raises(SetupFailure, match=r"gpus\.json"):
        fake_nvml()
    nvml(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    found = fake_nvml()
    assert found is not None
    assert found.uuids() == ("GPU-0",)
    facts, _ = found.device("GPU-0").facts()
    assert facts.driver is not None
    assert facts.driver.startswith("fake"), "no evidence of it may be taken for a real one's"


def test_drivers_that_are_not_there_or_do_not_answer(tmp_path: Path) -> None:
    with pytest.raises(NoDriver):
        nvml(tmp_path, state="absent")
    with pytest.raises(SetupFailure, match="gives no answer"):
        nvml(tmp_path, state="silent")


def test_whoever_waits_to_be_seen_is_released_by_readings(tmp_path: Path) -> None:
    import threading

    fake = nvml(tmp_path)
    seen: list[bool] = []
    waiting = threading.Thread(target=lambda: seen.append(wait_until_seen(tmp_path, ("GPU-0",))))
    waiting.start()
    while waiting.is_alive():
        fake.device("GPU-0").memory()
    waiting.join()
    assert seen == [True]
