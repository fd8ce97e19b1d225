"""What the sampler asks of NVML, in its own words, so that a fake can stand behind the same questions.

Every question may fail on its own: a consumer card counts no ECC errors, a container may not list
processes. `Unreadable` says which answer NVML gave instead; a value is never made up for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import Protocol

from harness.errors import SetupFailure

LOST = "GPU_IS_LOST"
NO_LIBRARY = "LIBRARY_NOT_FOUND"


class Unreadable(Exception):  # noqa: N818  # reads as what happened
    """NVML did not answer this question; `code` is its error without the prefix, e.g. NO_PERMISSION."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class NoDriver(SetupFailure):
    """There is no NVIDIA driver on this host, so there is no GPU to be asked."""


class Field(StrEnum):
    """A number that is read once or twice per second; the unit stands in the name."""

    POWER_MW = "power_mw"
    POWER_LIMIT_MW = "power_limit_mw"
    """The limit that is enforced, whoever set it."""
    SM_CLOCK_MHZ = "sm_clock_mhz"
    MEMORY_CLOCK_MHZ = "memory_clock_mhz"
    TEMPERATURE_C = "temperature_c"
    CLOCK_REASONS = "clock_reasons"
    """Bits of `Reason`."""
    GPU_PCT = "gpu_pct"
    """Share of the last period in which a kernel ran (NVML's utilisation.gpu)."""
    MEMORY_PCT = "memory_pct"
    PCIE_TX_KB_S = "pcie_tx_kb_s"
    PCIE_RX_KB_S = "pcie_rx_kb_s"
    PCIE_REPLAYS = "pcie_replays"
    ECC_CORRECTED = "ecc_corrected"
    """Since the driver was loaded."""
    ECC_UNCORRECTED = "ecc_uncorrected"


class Reason(IntFlag):
    """Why clocks are below what they could be (nvmlClocksEventReason*)."""

    IDLE = 0x1
    APPLICATION_CLOCKS = 0x2
    POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL = 0x20
    HW_THERMAL = 0x40
    HW_POWER_BRAKE = 0x80
    DISPLAY_CLOCKS = 0x100


THROTTLED = Reason.HW_SLOWDOWN | Reason.SW_THERMAL | Reason.HW_THERMAL | Reason.HW_POWER_BRAKE
"""Heat or a failing supply: a run under these says nothing about the code.

A card at its power cap is not among them: that is where a loaded card works, and both arms have the same cap.
"""


@dataclass(frozen=True)
class Memory:
    """Physical memory of a GPU, in bytes: total = free + used + reserved."""

    total: int
    free: int
    used: int
    """Without `reserved` where that is known; an old driver counts it in."""
    reserved: int | None
    """Held by driver and firmware; None where the driver does not offer the newer structure."""


@dataclass(frozen=True)
class Facts:
    """What does not change while a launch runs; what cannot be read is None and named in `unreadable`."""

    uuid: str
    name: str | None = None
    driver: str | None = None
    memory_bytes: int | None = None
    power_limit_mw: int | None = None
    power_limit_default_mw: int | None = None
    power_limit_max_mw: int | None = None
    pcie_generation: int | None = None
    """The link's highest possible one, on this board in this slot; idle links run slower."""
    pcie_width: int | None = None
    ecc: bool | None = None
    mig: bool | None = None
    """True: the GPU is cut into instances, and neither its memory nor its processes can be told as a whole."""


@dataclass(frozen=True)
class User:
    """A process that has a context on a GPU."""

    pid: int
    """As NVML numbers it: in the host's namespace."""
    compute: bool
    """False for one that only draws, as a desktop does."""
    used_bytes: int | None
    """None where the driver does not tell, as inside most containers."""


class Device(Protocol):
    """One GPU. Every method raises `Unreadable` where NVML does not answer."""

    uuid: str

    def facts(self) -> tuple[Facts, dict[str, str]]:
        """Its facts, and by name why some are missing; never raises."""

    def minor(self) -> int:
        """Number of its device node: /dev/nvidia0 has 0."""

    def memory(self) -> Memory:
        """Memory now; some ten microseconds."""

    def read(self, field: Field) -> int:
        """A number now; microseconds to milliseconds."""

    def users(self) -> tuple[User, ...]:
        """Processes that have a context on it now."""

    def xids(self) -> tuple[int, ...]:
        """Codes of critical errors since the last time this was asked; the first time starts the watch."""


class Nvml(Protocol):
    """A session with the driver."""

    def uuids(self) -> tuple[str, ...]:
        """GPUs of this host in the driver's order.

        Raises:
            Unreadable: the driver does not list them.
        """

    def sees_host_pids(self) -> bool:
        """Whether the pids that NVML lists mean the same processes here; not so in a pid namespace of one's own."""

    def device(self, uuid: str) -> Device:
        """One GPU, or an instance of one.

        Raises:
            Unreadable: there is none of this UUID.
        """

    def wall_ns(self) -> int:
        """The host's wall clock, ns since 1970; here so that a test can make it jump."""

    def close(self) -> None:
        """End the session."""


def open_nvml() -> Nvml:
    """NVML of this host, or the fake that `QUALIFY_FAKE_NVML` names.

    Raises:
        NoDriver: there is none.
        SetupFailure: there is one and it does not answer.
    """
    from harness.fakes.nvml import fake_nvml  # noqa: PLC0415  # each is loaded where it is the one

    if (fake := fake_nvml()) is not None:
        return fake
    from harness.observe.gpu.real import RealNvml  # noqa: PLC0415

    return RealNvml()
