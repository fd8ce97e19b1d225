"""The real NVML's answers and errors, with its library's functions replaced: there is no GPU here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from harness.errors import SetupFailure
from harness.observe.gpu import real
from harness.observe.gpu.nvml import Field, NoDriver, Unreadable, User


def fails(code: int) -> Any:
    def function(*_: Any) -> Any:
        raise pynvml.NVMLError(code)

    return function


@pytest.fixture
def device() -> real.RealDevice:
    return real.RealDevice("GPU-0", object())


def test_without_a_library_there_is_no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", fails(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    monkeypatch.setattr(real, "DRIVER", tmp_path / "version")
    with pytest.raises(NoDriver, match="no NVIDIA driver on this host"):
        real.RealNvml()


def test_a_driver_without_its_library_is_broken_and_not_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", fails(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    (tmp_path / "version").touch()
    monkeypatch.setattr(real, "DRIVER", tmp_path / "version")
    with pytest.raises(SetupFailure, match="LIBRARY_NOT_FOUND") as caught:
        real.RealNvml()
    assert not isinstance(caught.value, NoDriver)


@pytest.mark.parametrize("code", ["DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH", "NO_PERMISSION"])
def test_a_library_that_gives_no_answer_is_a_setup_failure(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", fails(getattr(pynvml, f"NVML_ERROR_{code}")))
    with pytest.raises(SetupFailure, match=f"NVML gives no answer \\({code}\\)"):
        real.RealNvml()


def test_a_gpu_of_another_job_is_not_there_and_a_lost_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cgroup of Slurm's: NVML counts every GPU of the host, and refuses those that are not the job's."""
    refusal = [pynvml.NVML_ERROR_NO_PERMISSION]

    def handle(number: int) -> int:
        if number == 1:
            raise pynvml.NVMLError(refusal[0])
        return number

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 3)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", "GPU-{}".format)
    assert real.RealNvml().uuids() == ("GPU-0", "GPU-2")
    refusal[0] = pynvml.NVML_ERROR_GPU_IS_LOST
    with pytest.raises(Unreadable, match="GPU_IS_LOST"):
        real.RealNvml().uuids()


def test_every_error_keeps_its_name(monkeypatch: pytest.MonkeyPatch, device: real.RealDevice) -> None:
    for code in ("NOT_SUPPORTED", "NO_PERMISSION", "GPU_IS_LOST"):
        monkeypatch.setitem(real.READINGS, Field.POWER_MW, fails(getattr(pynvml, f"NVML_ERROR_{code}")))
        with pytest.raises(Unreadable, match=code):
            device.read(Field.POWER_MW)


def test_memory_is_asked_in_the_older_form_once_the_newer_is_not_there(
    monkeypatch: pytest.MonkeyPatch, device: real.RealDevice
) -> None:
    asked = []

    def info(_: Any, version: int | None = None) -> Any:
        asked.append(version)
        if version:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return SimpleNamespace(total=10, free=4, used=6)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", info)
    for _ in range(2):
        memory = device.memory()
        assert (memory.total, memory.free, memory.used, memory.reserved) == (10, 4, 6, None)
    assert asked == [pynvml.nvmlMemory_v2, None, None]


def test_memory_that_may_not_be_read_is_not_asked_for_in_another_form(
    monkeypatch: pytest.MonkeyPatch, device: real.RealDevice
) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", fails(pynvml.NVML_ERROR_NO_PERMISSION))
    with pytest.raises(Unreadable, match="NO_PERMISSION"):
        device.memory()


def test_a_process_that_draws_and_computes_computes(monkeypatch: pytest.MonkeyPatch, device: real.RealDevice) -> None:
    def listed(*pids: int) -> Any:
        return lambda _: [SimpleNamespace(pid=p, usedGpuMemory=None if p == 3 else 100 + p) for p in pids]

    monkeypatch.setattr(pynvml, "nvmlDeviceGetGraphicsRunningProcesses", listed(1, 2))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", listed(2, 3))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMPSComputeRunningProcesses", fails(pynvml.NVML_ERROR_NOT_SUPPORTED))
    assert device.users() == (User(1, compute=False, used_bytes=101), User(2, True, 102), User(3, True, None))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", fails(pynvml.NVML_ERROR_NO_PERMISSION))
    with pytest.raises(Unreadable, match="NO_PERMISSION"):
        device.users()


def test_pcie_is_a_rate_between_two_counts_and_a_wrap_is_no_rate(
    monkeypatch: pytest.MonkeyPatch, device: real.RealDevice
) -> None:
    counts = iter([1_000, 5_001_000, 7])
    times = iter([0, 1_000_000_000, 2_000_000_000])

    def values(_: Any, fields: list[int]) -> Any:
        assert fields == [pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES]
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=next(counts)))]

    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", values)
    monkeypatch.setattr("harness.observe.gpu.real.time", SimpleNamespace(monotonic_ns=lambda: next(times)))
    with pytest.raises(Unreadable, match="FIRST_READING"):
        device.read(Field.PCIE_TX_KB_S)
    assert device.read(Field.PCIE_TX_KB_S) == 5_000
    with pytest.raises(Unreadable, match="COUNTER_WRAPPED"):
        device.read(Field.PCIE_TX_KB_S)


def test_without_counters_the_driver_measures_pcie_itself(
    monkeypatch: pytest.MonkeyPatch, device: real.RealDevice
) -> None:
    refused = [SimpleNamespace(nvmlReturn=pynvml.NVML_ERROR_NOT_SUPPORTED)]
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", lambda *_: refused)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPcieThroughput", lambda _, kind: 42 + kind)
    assert device.read(Field.PCIE_RX_KB_S) == 42 + pynvml.NVML_PCIE_UTIL_RX_BYTES


def test_xids_are_those_that_wait_in_the_queue(monkeypatch: pytest.MonkeyPatch, device: real.RealDevice) -> None:
    waiting = [31, 79]

    def wait(_: Any, timeout_ms: int) -> Any:
        assert timeout_ms == 0
        if not waiting:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return SimpleNamespace(eventData=waiting.pop(0))

    registered = []
    monkeypatch.setattr(pynvml, "nvmlEventSetCreate", lambda: "set")
    monkeypatch.setattr(pynvml, "nvmlDeviceRegisterEvents", lambda *a: registered.append(a[1:]))
    monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", wait)
    assert device.xids() == (31, 79)
    assert device.xids() == ()
    assert registered == [(pynvml.nvmlEventTypeXidCriticalError, "set")]


def test_facts_that_cannot_be_read_are_none_and_say_why(
    monkeypatch: pytest.MonkeyPatch, device: real.RealDevice
) -> None:
    for name in vars(pynvml):
        if name.startswith(("nvmlDeviceGet", "nvmlSystemGetDriver")):
            monkeypatch.setattr(pynvml, name, fails(pynvml.NVML_ERROR_NOT_SUPPORTED))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda _: b"NVIDIA H200")
    facts, missing = device.facts()
    assert facts.name == "NVIDIA H200"
    assert (facts.memory_bytes, facts.power_limit_mw, facts.mig) == (None, None, None)
    assert missing["mig"] == "NOT_SUPPORTED"


def test_readings_go_to_functions_that_the_library_has() -> None:
    """A name that a release of nvidia-ml-py lacks would only show on a GPU."""
    for field in Field:
        assert field in real.READINGS or field in (Field.PCIE_TX_KB_S, Field.PCIE_RX_KB_S)
    for name in (
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetPowerManagementDefaultLimit",
        "nvmlDeviceGetPowerManagementLimitConstraints",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "nvmlDeviceGetMaxPcieLinkWidth",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetHandleByUUID",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetTotalEccErrors",
    ):
        assert callable(getattr(pynvml, name)), name
