"""What this host is, and which profile fits it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from harness.config.model import Profile
from harness.errors import SetupFailure
from harness.session.visible import Gpu, restriction, visible


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
    from harness.observe.gpu.nvml import NoDriver, Unreadable, open_nvml  # noqa: PLC0415  # NVML only where asked for

    try:
        nvml = open_nvml()
    except NoDriver:
        return ()
    try:
        found = [nvml.device(uuid).facts() for uuid in nvml.uuids()]
    except Unreadable as e:
        raise SetupFailure(f"the NVIDIA driver does not list its GPUs ({e}); mend it, or choose PROFILE=") from e
    finally:
        nvml.close()
    for facts, missing in found:
        if facts.name is None or facts.memory_bytes is None:
            raise SetupFailure(f"{facts.uuid} does not say what it is ({missing}); mend the driver, or choose PROFILE=")
    return tuple(Gpu(f.name or "", (f.memory_bytes or 0) >> 20, f.uuid) for f, _ in found)


def gpus_of_lanes(profile: Profile) -> tuple[tuple[str, ...], ...]:
    """UUIDs of the GPUs of each lane, in the driver's order; empty tuples for a profile of the CPU.

    Raises:
        SetupFailure: this host lacks some of them, or its driver does not answer.
    """
    host = profile.host
    lanes = min(host.lanes, len(profile.plan.modes))
    if not host.gpus:
        return ((),) * lanes
    found = gpus()
    ours = visible(found, os.environ)
    fitting = [g.uuid for g in ours if host.gpu_name in g.name]
    if len(fitting) < host.gpus * lanes:
        wanted = f"{host.gpus * lanes} x {host.gpu_name or 'NVIDIA GPU'}"
        here = counted([g.name for g in found]) or "no NVIDIA GPU (no driver, or it lists none)"
        if left := restriction(os.environ):
            here += f", of which {left} leaves {len(ours)}"
        raise SetupFailure(f"profile {profile.name} needs {wanted}; this host has {here}")
    return tuple(tuple(fitting[lane * host.gpus : (lane + 1) * host.gpus]) for lane in range(lanes))


def counted(names: Sequence[str]) -> str:
    """`2x NVIDIA A, 1x NVIDIA B`."""
    return ", ".join(f"{names.count(n)}x {n}" for n in dict.fromkeys(names))


def profile_of_this_host() -> Choice:
    """The shipped profile for the GPUs that the environment leaves us, and what leaves them.

    Raises:
        SetupFailure: the driver does not answer, or the environment names a GPU that is not there.
    """
    choice, left = choose_profile(visible(gpus(), os.environ)), restriction(os.environ)
    return Choice(choice.profile, f"{choice.why} (with {left})") if left else choice


def choose_profile(found: tuple[Gpu, ...]) -> Choice:
    """The shipped profile for these GPUs: those that are ours to use."""
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
