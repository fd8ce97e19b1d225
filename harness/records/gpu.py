"""What is known of the GPUs of a launch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.records.base import Record


class GpuFacts(Record):
    """A GPU as it was when a launch began; what could not be read is None, and `unreadable` says why."""

    uuid: str
    name: str | None
    driver: str | None
    memory_bytes: int | None
    power_limit_mw: int | None
    """Enforced when the launch began."""
    power_limit_default_mw: int | None
    power_limit_max_mw: int | None
    pcie_generation: int | None
    pcie_width: int | None
    ecc: bool | None
    mig: bool | None
    unreadable: dict[str, str] = Field(default_factory=dict)
    """Name of a field -> NVML's error without its prefix, e.g. NOT_SUPPORTED."""


class GpuSampling(Record):
    """How well the GPUs were watched."""

    asked_hz: float
    readings: int
    missed: int
    """Readings that were due while another one was late."""
    achieved_period_ms: float | None
    worst_gap_ms: float | None
    """Longest time from a reading of memory to the answer of the next one: what is shorter may have gone unseen."""
    cpu_pct: float | None
    """Of one core, over the whole life of the sampler."""


class GpuProcess(Record):
    """A process with a context on a GPU; nothing of its user is recorded."""

    pid: int
    name: str | None
    """None where it is not to be seen from here."""
    owner: Literal["own", "foreign", "unknown"]
    """unknown: a process that computes, in a pid namespace that the harness cannot see into."""
    compute: bool
    """False for one that only draws, as a desktop does."""
    used_bytes: int | None

    @property
    def text(self) -> str:
        """`python3 (pid 7, 512 MiB)`."""
        size = "" if self.used_bytes is None else f", {self.used_bytes >> 20:,} MiB"
        return f"{self.name or 'a process of another pid namespace'} (pid {self.pid}{size})"


class GpuState(Record):
    """One GPU at a moment between launches."""

    gpu: str
    used_bytes: int | None
    free_bytes: int | None
    processes: tuple[GpuProcess, ...] | None
    """None where the driver does not list them."""
    busy_pct: int | None = None
    """Share of the last second or less in which a kernel ran; None where it is not told, or was not asked."""


class GpuEvent(Record):
    """What happened on a GPU (gpu.jsonl)."""

    kind: Literal["processes", "xid", "unreadable"]
    mono_ns: int
    gpu: str
    processes: tuple[GpuProcess, ...] | None = None
    """All that are there from now on."""
    reading: str | None = None
    """What could not be read; `gpu` = nothing of it, it is lost."""
    code: int | str | None = None
    """An Xid, or NVML's error."""


class GpuWatch(Record):
    """The GPUs of a launch: what they are, how they were found and left, how they were watched."""

    facts: tuple[GpuFacts, ...] = ()
    before: tuple[GpuState, ...] = ()
    """Before the server was started: what is in use now is not the server's."""
    after: tuple[GpuState, ...] = ()
    """Once the memory was back, or the wait for it was over."""
    returned: bool | None = None
    """Memory and processes were again as before; None where that could not be read."""
    return_s: float | None = None
    """How long after the server's end that took, or was waited for."""
    holders: str = ""
    """Who still held memory, when it did not return."""
    sampling: GpuSampling | None = None
    """None where the sampler ended before it could say."""
    fault: str = ""
    """Why the GPUs were not watched to the end."""
