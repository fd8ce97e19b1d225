"""What this host is, and which profile fits it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from harness.config.model import Profile
from harness.errors import SetupFailure

QUERY = "name,memory.total,uuid"


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as its driver names it."""

    name: str
    memory_mib: int
    uuid: str


@dataclass(frozen=True)
class Choice:
    """A profile and the reason for it."""

    profile: str
    why: str


def gpus() -> tuple[Gpu, ...]:
    """NVIDIA GPUs of this host; none where there is no driver.

    Raises:
        SetupFailure: there is a driver and it does not answer: that host must not count as one without GPUs.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        done = subprocess.run(
            [tool, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return parse_query(done.stdout)
    except (subprocess.SubprocessError, ValueError) as e:
        raise SetupFailure(
            f"nvidia-smi is installed but gives no answer ({e}); mend the driver, or choose PROFILE="
        ) from e


def parse_query(text: str) -> tuple[Gpu, ...]:
    """Rows of `nvidia-smi --query-gpu=name,memory.total,uuid --format=csv,noheader,nounits`.

    Raises:
        ValueError: a row has another form.
    """
    found = []
    for line in filter(str.strip, text.splitlines()):
        name, memory, uuid = (part.strip() for part in line.split(","))
        found.append(Gpu(name, int(memory), uuid))
    return tuple(found)


def gpus_of_lanes(profile: Profile) -> tuple[tuple[str, ...], ...]:
    """UUIDs of the GPUs of each lane, in the driver's order; empty tuples for a profile of the CPU.

    Raises:
        SetupFailure: this host lacks some of them.
    """
    host = profile.host
    lanes = min(host.lanes, len(profile.plan.modes))
    if not host.gpus:
        return ((),) * lanes
    found = gpus()
    fitting = [g.uuid for g in found if host.gpu_name in g.name]
    if len(fitting) < host.gpus * lanes:
        wanted = f"{host.gpus * lanes} x {host.gpu_name or 'NVIDIA GPU'}"
        here = counted([g.name for g in found]) or "no NVIDIA GPU (no nvidia-smi, or it lists none)"
        raise SetupFailure(f"profile {profile.name} needs {wanted}; this host has {here}")
    return tuple(tuple(fitting[lane * host.gpus : (lane + 1) * host.gpus]) for lane in range(lanes))


def counted(names: Sequence[str]) -> str:
    """`2x NVIDIA A, 1x NVIDIA B`."""
    return ", ".join(f"{names.count(n)}x {n}" for n in dict.fromkeys(names))


def choose_profile(found: tuple[Gpu, ...]) -> Choice:
    """The shipped profile for these GPUs."""
    names = [g.name for g in found]
    if len(found) == 1 and "RTX 5090" in names[0]:
        return Choice("rtx5090", f"one {names[0]}")
    if len(found) == 4 and all("RTX PRO 6000" in name for name in names):
        return Choice("rtxpro6000x4", f"four {names[0]}")
    if found:
        return Choice(
            "cpu-forged", f"{counted(names)}: no profile is shipped for that; running the embedded one on the CPU"
        )
    return Choice("cpu-forged", "no NVIDIA GPU here; running the embedded profile on the CPU")
