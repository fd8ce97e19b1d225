"""NVML itself, through nvidia-ml-py; the only module that imports it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

from harness.errors import SetupFailure
from harness.observe.gpu.nvml import Facts, Field, Memory, NoDriver, Unreadable, User

DRIVER = Path("/proc/driver/nvidia/version")
FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h."""
XIDS_AT_ONCE = 64


CODES: dict[int, str] = {
    value: name.removeprefix("NVML_ERROR_")
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
}


def code_of(error: pynvml.NVMLError) -> str:
    """`NOT_SUPPORTED` of NVML_ERROR_NOT_SUPPORTED; a number that this nvidia-ml-py does not know stays one."""
    number = int(error.value)
    return CODES.get(number, f"ERROR_{number}")


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call NVML.

    Raises:
        Unreadable: it answers with an error.
    """
    try:
        return function(*arguments)
    except pynvml.NVMLError as e:
        raise Unreadable(code_of(e)) from None


def text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class RealNvml:
    """The driver of this host; see `Nvml`."""

    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as e:
            code = code_of(e)
            if code == "LIBRARY_NOT_FOUND" and not DRIVER.exists():
                raise NoDriver("no NVIDIA driver on this host (libnvidia-ml.so.1 is not installed)") from None
            raise SetupFailure(
                f"an NVIDIA driver is installed but NVML gives no answer ({code}); mend the driver "
                "(`nvidia-smi` must work), or choose PROFILE="
            ) from None

    def uuids(self) -> tuple[str, ...]:
        """See `Nvml.uuids`."""
        found = (self._uuid(number) for number in range(ask(pynvml.nvmlDeviceGetCount)))
        return tuple(uuid for uuid in found if uuid is not None)

    @staticmethod
    def _uuid(number: int) -> str | None:
        """None for a GPU that a cgroup keeps from us, as Slurm does with those of other jobs: NVML counts it still."""
        try:
            return text(ask(pynvml.nvmlDeviceGetUUID, ask(pynvml.nvmlDeviceGetHandleByIndex, number)))
        except Unreadable as e:
            if e.code == "NO_PERMISSION":
                return None
            raise

    def device(self, uuid: str) -> RealDevice:
        """See `Nvml.device`."""
        return RealDevice(uuid, ask(pynvml.nvmlDeviceGetHandleByUUID, uuid))

    def sees_host_pids(self) -> bool:
        """See `Nvml.sees_host_pids`: the first namespace of a Linux has a fixed number."""
        try:
            return Path("/proc/self/ns/pid").stat().st_ino == FIRST_PID_NAMESPACE
        except OSError:
            return False

    def wall_ns(self) -> int:
        """See `Nvml.wall_ns`."""
        return time.time_ns()

    def close(self) -> None:
        """See `Nvml.close`."""
        ask(pynvml.nvmlShutdown)


class RealDevice:
    """One GPU by its handle; see `Device`."""

    def __init__(self, uuid: str, handle: Any) -> None:
        self.uuid = uuid
        self._handle = handle
        self._events: Any = None
        self._memory_v2 = True
        self._pcie = {Field.PCIE_TX_KB_S: _Rate(), Field.PCIE_RX_KB_S: _Rate()}

    def facts(self) -> tuple[Facts, dict[str, str]]:
        """See `Device.facts`."""
        questions: dict[str, Callable[[Any], Any]] = {
            "name": lambda h: text(pynvml.nvmlDeviceGetName(h)),
            "driver": lambda _: text(pynvml.nvmlSystemGetDriverVersion()),
            "memory_bytes": lambda h: int(pynvml.nvmlDeviceGetMemoryInfo(h).total),
            "power_limit_mw": pynvml.nvmlDeviceGetEnforcedPowerLimit,
            "power_limit_default_mw": pynvml.nvmlDeviceGetPowerManagementDefaultLimit,
            "power_limit_max_mw": lambda h: pynvml.nvmlDeviceGetPowerManagementLimitConstraints(h)[1],
            "pcie_generation": pynvml.nvmlDeviceGetMaxPcieLinkGeneration,
            "pcie_width": pynvml.nvmlDeviceGetMaxPcieLinkWidth,
            "ecc": lambda h: bool(pynvml.nvmlDeviceGetEccMode(h)[0]),
            "mig": lambda h: bool(pynvml.nvmlDeviceGetMigMode(h)[0]),
        }
        found: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for name, question in questions.items():
            try:
                found[name] = ask(question, self._handle)
            except Unreadable as e:
                missing[name] = e.code
        return Facts(self.uuid, **found), missing

    def minor(self) -> int:
        """See `Device.minor`."""
        return int(ask(pynvml.nvmlDeviceGetMinorNumber, self._handle))

    def memory(self) -> Memory:
        """See `Device.memory`."""
        if self._memory_v2:
            try:
                m = ask(pynvml.nvmlDeviceGetMemoryInfo, self._handle, pynvml.nvmlMemory_v2)
                return Memory(m.total, m.free, m.used, m.reserved)
            except Unreadable as e:
                if e.code not in ("FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH", "INVALID_ARGUMENT"):
                    raise
                self._memory_v2 = False  # a driver before 510
        m = ask(pynvml.nvmlDeviceGetMemoryInfo, self._handle)
        return Memory(m.total, m.free, m.used, None)

    def read(self, field: Field) -> int:
        """See `Device.read`."""
        if field in self._pcie:
            return self._pcie_kb_s(field)
        return int(ask(READINGS[field], self._handle))

    def users(self) -> tuple[User, ...]:
        """See `Device.users`. A process in both lists computes."""
        found: dict[int, User] = {}
        lists = (
            (pynvml.nvmlDeviceGetGraphicsRunningProcesses, False),
            (pynvml.nvmlDeviceGetComputeRunningProcesses, True),
            (pynvml.nvmlDeviceGetMPSComputeRunningProcesses, True),
        )
        for function, compute in lists:
            try:
                listed = ask(function, self._handle)
            except Unreadable:
                if function is pynvml.nvmlDeviceGetComputeRunningProcesses:
                    raise
                continue  # server cards have no graphics, instances no MPS
            found |= {p.pid: User(p.pid, compute, p.usedGpuMemory) for p in listed}
        return tuple(found[pid] for pid in sorted(found))

    def xids(self) -> tuple[int, ...]:
        """See `Device.xids`."""
        if self._events is None:
            events = ask(pynvml.nvmlEventSetCreate)
            ask(pynvml.nvmlDeviceRegisterEvents, self._handle, pynvml.nvmlEventTypeXidCriticalError, events)
            self._events = events
        codes: list[int] = []
        while len(codes) < XIDS_AT_ONCE:
            try:
                codes.append(int(ask(pynvml.nvmlEventSetWait_v2, self._events, 0).eventData))
            except Unreadable as e:
                if e.code == "TIMEOUT":
                    break
                raise
        return tuple(codes)

    def _pcie_kb_s(self, field: Field) -> int:
        """From the driver's byte counters; else its own measurement, which takes 20 ms."""
        is_sending = field is Field.PCIE_TX_KB_S
        counter = pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES if is_sending else pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES
        rate = self._pcie[field]
        if rate.counts:
            [value] = ask(pynvml.nvmlDeviceGetFieldValues, self._handle, [counter])
            if value.nvmlReturn == pynvml.NVML_SUCCESS:
                return rate.kb_s(int(value.value.ullVal), time.monotonic_ns())
            rate.counts = False
        kind = pynvml.NVML_PCIE_UTIL_TX_BYTES if is_sending else pynvml.NVML_PCIE_UTIL_RX_BYTES
        return int(ask(pynvml.nvmlDeviceGetPcieThroughput, self._handle, kind))


class _Rate:
    """Kilobytes per second between two readings of a counter that may wrap."""

    def __init__(self) -> None:
        self.counts = True
        self._last: tuple[int, int] | None = None

    def kb_s(self, count: int, time_ns: int) -> int:
        last, self._last = self._last, (count, time_ns)
        if last is None:
            raise Unreadable("FIRST_READING")
        if count < last[0] or time_ns <= last[1]:
            raise Unreadable("COUNTER_WRAPPED")
        return int((count - last[0]) * 1_000_000 / (time_ns - last[1]))


READINGS: dict[Field, Callable[[Any], Any]] = {
    Field.POWER_MW: pynvml.nvmlDeviceGetPowerUsage,
    Field.POWER_LIMIT_MW: pynvml.nvmlDeviceGetEnforcedPowerLimit,
    Field.SM_CLOCK_MHZ: lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM),
    Field.MEMORY_CLOCK_MHZ: lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_MEM),
    Field.TEMPERATURE_C: lambda h: pynvml.nvmlDeviceGetTemperature(h, pynvml.NVML_TEMPERATURE_GPU),
    Field.CLOCK_REASONS: pynvml.nvmlDeviceGetCurrentClocksEventReasons,
    Field.GPU_PCT: lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).gpu,
    Field.MEMORY_PCT: lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).memory,
    Field.PCIE_REPLAYS: pynvml.nvmlDeviceGetPcieReplayCounter,
    Field.ECC_CORRECTED: lambda h: pynvml.nvmlDeviceGetTotalEccErrors(
        h, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC
    ),
    Field.ECC_UNCORRECTED: lambda h: pynvml.nvmlDeviceGetTotalEccErrors(
        h, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    ),
}
"""PCIe rates are not here: they need the reading before."""
