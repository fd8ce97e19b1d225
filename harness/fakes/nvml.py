"""A fake NVML: GPUs described in a file, used by whoever registers, with faults on demand.

`QUALIFY_FAKE_NVML` names a folder with

    gpus.json           the host: see `Host` and `Gpu`
    users/PID.json      one file per process that uses the GPUs: see `harness.fakes.gpu_user`
    reads/UUID          grows by a byte with each reading of that GPU's memory

The memory in use is what living processes registered, so it comes and goes with them as on a real
GPU. A GPU with a `series` replays recorded free memory instead.
"""

from __future__ import annotations

import bisect
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from harness.errors import SetupFailure
from harness.fakes.gpu_user import Registration, alive, registrations
from harness.observe.gpu.nvml import LOST, Facts, Field, Memory, NoDriver, Unreadable, User

VARIABLE = "QUALIFY_FAKE_NVML"
MIB = 1 << 20
IDLE = {
    Field.POWER_MW: 60_000,
    Field.SM_CLOCK_MHZ: 2_400,
    Field.MEMORY_CLOCK_MHZ: 14_001,
    Field.TEMPERATURE_C: 41,
    Field.CLOCK_REASONS: 0,
    Field.GPU_PCT: 0,
    Field.MEMORY_PCT: 0,
    Field.PCIE_TX_KB_S: 0,
    Field.PCIE_RX_KB_S: 0,
    Field.PCIE_REPLAYS: 0,
    Field.ECC_CORRECTED: 0,
    Field.ECC_UNCORRECTED: 0,
}


@dataclass(frozen=True)
class Gpu:
    """One GPU of the file; sizes in MiB."""

    uuid: str
    name: str = "NVIDIA Fake GPU"
    memory_mib: int = 32_000
    reserved_mib: int | None = 500
    """None: a driver without the newer structure, which counts it as used."""
    power_limit_w: int = 575
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Error code by name of a field, a fact, or of memory, users, xids."""
    mig: bool = False
    minor: int | None = None
    """Number of the device node; None: its place in the list."""
    series: tuple[tuple[float, float], ...] = ()
    """Seconds since the fake was opened, and free MiB from then on."""
    heat: tuple[tuple[float, int], ...] = ()
    """The same of the temperature, in degrees Celsius."""
    values: Mapping[str, int] = field(default_factory=dict)
    """Readings by name of their field, where they differ from those of an idle GPU."""


@dataclass(frozen=True)
class Host:
    """What gpus.json says."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = "fake 575.57.08"
    state: str = "ok"
    """absent: no driver. silent: one that does not answer."""
    host_pids: bool = True
    """False: the harness is in a pid namespace of its own, and NVML's pids mean nothing to it."""
    wall_jump_s: float = 0.0
    """The wall clock is set by this much once a process computes."""


def read_host(folder: Path) -> Host:
    """The host that a folder describes.

    Raises:
        SetupFailure: there is no such file, or it says what no host can be.
    """
    file = folder / "gpus.json"
    try:
        tree: dict[str, Any] = json.loads(file.read_bytes())
        gpus = tuple(
            Gpu(**(gpu | {name: tuple(map(tuple, gpu.get(name, ()))) for name in ("series", "heat")}))
            for gpu in tree.pop("gpus", ())
        )
        return Host(gpus=gpus, **tree)
    except (OSError, ValueError, TypeError) as e:
        raise SetupFailure(f"{VARIABLE}: {file}: {e}") from e


def write_host(folder: Path, host: Host) -> None:
    """Describe a host; the folder is made."""
    for name in ("users", "reads"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    gpus = [{f.name: getattr(gpu, f.name) for f in fields(gpu)} for gpu in host.gpus]
    tree = {f.name: getattr(host, f.name) for f in fields(host)} | {"gpus": gpus}
    (folder / "gpus.json").write_text(json.dumps(tree, indent=1), "utf-8")


def fake_nvml() -> FakeNvml | None:
    """The fake that the environment names, or None.

    Raises:
        SetupFailure: it names no host, or one whose driver does not answer.
        NoDriver: one without a driver.
    """
    folder = os.environ.get(VARIABLE)
    return FakeNvml(Path(folder)) if folder else None


class FakeNvml:
    """See `Nvml`."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self.host = read_host(folder)
        self.clock = clock
        self.opened = clock()
        if self.host.state == "absent":
            raise NoDriver("no NVIDIA driver on this host (the fake says so)")
        if self.host.state == "silent":
            raise SetupFailure("an NVIDIA driver is installed but NVML gives no answer (the fake says so)")

    def uuids(self) -> tuple[str, ...]:
        """See `Nvml.uuids`."""
        return tuple(gpu.uuid for gpu in self.host.gpus)

    def device(self, uuid: str) -> FakeDevice:
        """See `Nvml.device`."""
        for gpu in self.host.gpus:
            if gpu.uuid == uuid:
                return FakeDevice(self, gpu)
        raise Unreadable("NOT_FOUND")

    def sees_host_pids(self) -> bool:
        """See `Nvml.sees_host_pids`."""
        return self.host.host_pids

    def wall_ns(self) -> int:
        """See `Nvml.wall_ns`."""
        busy = any(u.compute and alive(u) for u in registrations(self.folder))
        return time.time_ns() + (int(self.host.wall_jump_s * 1e9) if busy else 0)

    def close(self) -> None:
        """See `Nvml.close`."""


class FakeDevice:
    """See `Device`."""

    def __init__(self, nvml: FakeNvml, gpu: Gpu) -> None:
        self.uuid = gpu.uuid
        self._nvml = nvml
        self._gpu = gpu
        self._xids_told: set[tuple[int, int]] = set()

    def facts(self) -> tuple[Facts, dict[str, str]]:
        """See `Device.facts`."""
        gpu, limit_mw = self._gpu, self._gpu.power_limit_w * 1000
        known: dict[str, Any] = {
            "name": gpu.name,
            "driver": self._nvml.host.driver,
            "memory_bytes": gpu.memory_mib * MIB,
            "power_limit_mw": self._setting("power_limit_w", gpu.power_limit_w) * 1000,
            "power_limit_default_mw": limit_mw,
            "power_limit_max_mw": limit_mw,
            "pcie_generation": 5,
            "pcie_width": 16,
            "ecc": True,
            "mig": gpu.mig,
        }
        missing = {name: code for name, code in gpu.unreadable.items() if name in known}
        return Facts(self.uuid, **{k: v for k, v in known.items() if k not in missing}), missing

    def minor(self) -> int:
        """See `Device.minor`."""
        self._ask("minor")
        return self._nvml.host.gpus.index(self._gpu) if self._gpu.minor is None else self._gpu.minor

    def memory(self) -> Memory:
        """See `Device.memory`."""
        with (self._nvml.folder / "reads" / self.uuid).open("ab") as reads:
            reads.write(b".")
        self._ask("memory")
        gpu = self._gpu
        free = self._replayed()
        if free is None:
            free = gpu.memory_mib - (gpu.reserved_mib or 0) - sum(u.used_of(self.uuid) for u in self._holders())
        counted = gpu.reserved_mib or 0
        total, free_bytes = gpu.memory_mib * MIB, max(0, int(free * MIB))
        used = total - free_bytes - counted * MIB
        return Memory(total, free_bytes, used, None if gpu.reserved_mib is None else counted * MIB)

    def read(self, field: Field) -> int:
        """See `Device.read`."""
        self._ask(field)
        if field is Field.POWER_LIMIT_MW:
            return self._setting("power_limit_w", self._gpu.power_limit_w) * 1000
        value = self._gpu.values.get(field, IDLE[field])
        if field is Field.TEMPERATURE_C and self._gpu.heat:
            value = int(self._now(self._gpu.heat))
        return self._setting(field, value)

    def users(self) -> tuple[User, ...]:
        """See `Device.users`."""
        self._ask("users")
        return tuple(User(u.pid, u.compute, u.used_of(self.uuid) * MIB) for u in self._holders() if alive(u))

    def xids(self) -> tuple[int, ...]:
        """See `Device.xids`."""
        self._ask("xids")
        new = {(u.pid, u.settings["xid"]) for u in self._holders() if "xid" in u.settings} - self._xids_told
        self._xids_told |= new
        return tuple(code for _, code in sorted(new))

    def _ask(self, name: str) -> None:
        if self._setting("lost", 0):
            raise Unreadable(LOST)
        if self._gpu.mig and name in ("memory", "users"):
            raise Unreadable("NO_PERMISSION")
        if code := self._gpu.unreadable.get(name):
            raise Unreadable(code)

    def _replayed(self) -> float | None:
        return self._now(self._gpu.series) if self._gpu.series else None

    def _now(self, series: Sequence[tuple[float, float]]) -> float:
        now = self._nvml.clock() - self._nvml.opened
        return series[max(0, bisect.bisect_right(series, (now, float("inf"))) - 1)][1]

    def _holders(self) -> Iterator[Registration]:
        """Who has memory on this GPU now; one that says so only comes with a server."""
        mine = [u for u in registrations(self._nvml.folder) if self.uuid in u.uuids and u.holds(self._nvml.folder)]
        serving = any(u.compute and not u.with_server for u in mine)
        yield from (u for u in mine if serving or not u.with_server)

    def _setting(self, name: str, default: int) -> int:
        """What a user of the GPU does to it, for as long as it lives."""
        return next((u.settings[name] for u in self._holders() if name in u.settings and alive(u)), default)
