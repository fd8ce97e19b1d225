"""Reads the GPUs of a lane: memory at a steady pace, everything else once per second."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.observe.gpu.journal import Journal
from harness.observe.gpu.nvml import LOST, Device, Field, Memory, Nvml, Unreadable, User
from harness.observe.gpu.owner import Family, Owner

MOST_HZ = 100.0
STATE_HZ = 1.0
NOT_YET = "FIRST_READING"
"""A rate has no value before its second reading: no reason to call it unreadable."""

Tell = Callable[[dict[str, Any]], None]
"""Takes events: processes that came or went, critical errors, what cannot be read."""


@dataclass(frozen=True)
class State:
    """What a reading says of who uses a GPU."""

    processes: list[dict[str, Any]] | None
    """None where they are not listed."""
    busy_pct: int | None
    """Share of the driver's last period in which a kernel ran; None where it is not told."""


@dataclass
class Pace:
    """Absolute deadlines: a late reading does not move the ones after it, and missed ones are counted."""

    period_ns: int
    due_ns: int
    readings: int = 0
    missed: int = 0
    worst_gap_ns: int = 0
    first_ns: int | None = None
    previous_ns: int | None = None
    """The reading before the last one."""
    last_ns: int | None = None

    def wait_s(self, now_ns: int) -> float:
        """Seconds until the next reading is due."""
        return max(0, self.due_ns - now_ns) / 1e9

    def taken(self, now_ns: int) -> None:
        """A reading was taken at `now_ns`; the next is due at the next multiple of the period."""
        if self.last_ns is not None:
            self.worst_gap_ns = max(self.worst_gap_ns, now_ns - self.last_ns)
        self.first_ns = now_ns if self.first_ns is None else self.first_ns
        self.previous_ns, self.last_ns = self.last_ns, now_ns
        self.readings += 1
        steps = max(1, -(-(now_ns + 1 - self.due_ns) // self.period_ns))
        self.missed += steps - 1
        self.due_ns += steps * self.period_ns

    def answered(self, now_ns: int) -> None:
        """The driver's answer came at `now_ns`: it may be as old as its question, and as new as this."""
        if self.previous_ns is not None:
            self.worst_gap_ns = max(self.worst_gap_ns, now_ns - self.previous_ns)

    @property
    def achieved_ns(self) -> float | None:
        """Mean time between readings; None before the second one."""
        if self.first_ns is None or self.last_ns is None or self.readings < 2:
            return None
        return (self.last_ns - self.first_ns) / (self.readings - 1)


@dataclass
class Sampler:
    """The loops over some GPUs of one driver."""

    nvml: Nvml
    devices: Sequence[Device]
    journal: Journal
    tell: Tell
    hz: float
    state_hz: float = STATE_HZ
    now_ns: Callable[[], int] = time.monotonic_ns

    def __post_init__(self) -> None:
        self.stopping = threading.Event()
        self.family = Family(host_pids=self.nvml.sees_host_pids())
        self._told: set[tuple[int, str, str]] = set()
        self._users: list[Any] = [None] * len(self.devices)
        self._state_lock = threading.Lock()
        self.pace = Pace(round(1e9 / self.hz), self.now_ns())

    # -- readings ---------------------------------------------------------------------------------

    def read_memory(self) -> list[Memory | None]:
        """One reading of every GPU, written down; None where there is no answer."""
        found: list[Memory | None] = []
        for gpu, device in enumerate(self.devices):
            try:
                memory: Memory | None = device.memory()
            except Unreadable as e:
                self._unreadable(gpu, "memory", e.code)
                memory = None
            values = [None] * 4 if memory is None else [memory.total, memory.free, memory.used, memory.reserved]
            self.journal.add(["memory", self.now_ns(), gpu, *values])
            found.append(memory)
        return found

    def read_state(self) -> list[State]:
        """Everything else, written down; who uses each GPU."""
        with self._state_lock:
            return [self._read_state(gpu, device) for gpu, device in enumerate(self.devices)]

    def _read_state(self, gpu: int, device: Device) -> State:
        values = {field: self._value(gpu, device, field) for field in Field}
        self.journal.add(["state", self.now_ns(), self.nvml.wall_ns(), gpu, *values.values()])
        try:
            for code in device.xids():
                self.tell({"kind": "xid", "mono_ns": self.now_ns(), "gpu": device.uuid, "code": code})
        except Unreadable as e:
            self._unreadable(gpu, "xids", e.code)
        return State(self._read_users(gpu, device), values[Field.GPU_PCT])

    def _read_users(self, gpu: int, device: Device) -> list[dict[str, Any]] | None:
        try:
            listed = device.users()
        except Unreadable as e:
            self._unreadable(gpu, "users", e.code)
            return None
        users = [self._described(user) for user in listed]
        if users != self._users[gpu]:
            self._users[gpu] = users
            event = {"kind": "processes", "mono_ns": self.now_ns(), "gpu": device.uuid, "processes": users}
            self.tell(event)
        return users

    def _value(self, gpu: int, device: Device, wanted: Field) -> int | None:
        try:
            return device.read(wanted)
        except Unreadable as e:
            if e.code != NOT_YET:
                self._unreadable(gpu, wanted, e.code)
            return None

    def _described(self, user: User) -> dict[str, Any]:
        owner, name = self.family.owner(user.pid)
        # A process that only draws is the desktop's, whoever started it.
        owner = Owner.FOREIGN if owner is Owner.UNKNOWN and not user.compute else owner
        return {"pid": user.pid, "name": name, "owner": owner, "compute": user.compute, "used_bytes": user.used_bytes}

    def _unreadable(self, gpu: int, name: str, code: str) -> None:
        """Said once per GPU, reading and answer, not with every reading."""
        what = (gpu, "gpu" if code == LOST else name, code)
        if what not in self._told:
            self._told.add(what)
            event = {"kind": "unreadable", "mono_ns": self.now_ns(), "gpu": self.devices[gpu].uuid}
            self.tell(event | {"reading": what[1], "code": code})

    # -- loops ------------------------------------------------------------------------------------

    def watch_memory(self) -> None:
        """Read memory at the asked rate until told to stop."""
        self.pace.due_ns = self.now_ns()
        while not self.stopping.is_set():
            time.sleep(self.pace.wait_s(self.now_ns()))  # half the price of waiting for the event
            self.pace.taken(self.now_ns())
            self.read_memory()
            self.pace.answered(self.now_ns())

    def watch_state(self) -> None:
        """Read the rest at its own pace; slow answers of the driver do not hold up memory."""
        pace = Pace(round(1e9 / self.state_hz), self.now_ns())
        while not self.stopping.wait(pace.wait_s(self.now_ns())):
            pace.taken(self.now_ns())
            self.read_state()
            self.journal.flush()

    def describe(self) -> list[dict[str, Any]]:
        """What the GPUs are, and what of that cannot be read."""
        described = [device.facts() for device in self.devices]
        return [asdict(facts) | {"unreadable": missing} for facts, missing in described]

    def run(self, until: Callable[[], None]) -> dict[str, Any]:
        """Sample until `until` returns; how well that went, with the fields of `GpuSampling`."""
        threads = [threading.Thread(target=loop, daemon=True) for loop in (self.watch_memory, self.watch_state)]
        begin_ns, cpu_s = self.now_ns(), _cpu_s()
        for thread in threads:
            thread.start()
        try:
            until()
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()
        pace, wall_s = self.pace, (self.now_ns() - begin_ns) / 1e9
        if pace.last_ns is not None:  # a loop that ended early, on a full disk, leaves a gap at the end
            pace.worst_gap_ns = max(pace.worst_gap_ns, self.now_ns() - pace.last_ns)
        return {
            "asked_hz": self.hz,
            "readings": pace.readings,
            "missed": pace.missed,
            "achieved_period_ms": None if pace.achieved_ns is None else pace.achieved_ns / 1e6,
            "worst_gap_ms": pace.worst_gap_ns / 1e6 if pace.readings > 1 else None,
            "cpu_pct": 100 * (_cpu_s() - cpu_s) / wall_s if wall_s else None,
        }


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
