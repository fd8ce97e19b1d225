"""Which profile fits this host, and what a driver that gives no answer means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupFailure
from harness.fakes import nvml
from harness.session.host import choose_profile, gpus, gpus_of_lanes, profile_of_this_host
from harness.session.visible import CUDA, GPUS, Gpu
from harness.words import ExitCode
from tests.judge.bundles import small_profile

RTX5090 = "NVIDIA GeForce RTX 5090"
PRO6000 = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def found(*names: str) -> tuple[Gpu, ...]:
    return tuple(Gpu(name, 32_607, f"GPU-{n}") for n, name in enumerate(names))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Describes the host of the fake NVML: names of its GPUs, and what its driver does."""
    for variable in (GPUS, CUDA):
        monkeypatch.delenv(variable, raising=False)

    def describe(*names: str, state: str = "ok", **gpu: Any) -> None:
        gpus = tuple(nvml.Gpu(f"GPU-{n}", name, 32_607, **gpu) for n, name in enumerate(names))
        nvml.write_host(tmp_path, nvml.Host(gpus, state=state))
        monkeypatch.setenv(nvml.VARIABLE, str(tmp_path))

    return describe


# --- what the driver says ----------------------------------------------------------------------------


def test_gpus_are_those_of_the_driver_in_its_order(host: Callable[..., None]) -> None:
    host(RTX5090, PRO6000)
    assert gpus() == (Gpu(RTX5090, 32_607, "GPU-0"), Gpu(PRO6000, 32_607, "GPU-1"))


def test_a_host_without_a_driver_has_no_gpus(host: Callable[..., None]) -> None:
    host(state="absent")
    assert gpus() == ()


def test_a_driver_that_lists_none_is_a_host_without_gpus(host: Callable[..., None]) -> None:
    host()
    assert gpus() == ()


def test_a_driver_that_gives_no_answer_is_a_setup_failure_and_no_host_without_gpus(host: Callable[..., None]) -> None:
    host(RTX5090, state="silent")
    with pytest.raises(SetupFailure, match="NVML gives no answer") as caught:
        gpus()
    assert caught.value.exit_code == ExitCode.SETUP_FAILURE


@pytest.mark.parametrize("fact", ["name", "memory_bytes"])
def test_a_gpu_that_does_not_say_what_it_is_is_none_of_zero_bytes(host: Callable[..., None], fact: str) -> None:
    host(RTX5090, unreadable={fact: "NO_PERMISSION"})
    with pytest.raises(SetupFailure, match=r"GPU-0 does not say what it is.*NO_PERMISSION"):
        gpus()


# --- lanes -------------------------------------------------------------------------------------------


def lanes(**host: object) -> tuple[tuple[str, ...], ...]:
    values = {"plan.modes": ["mtp0", "mtp1"]} | {f"host.{k}": v for k, v in host.items()}
    return gpus_of_lanes(small_profile(values))


def test_every_lane_gets_gpus_of_its_own_in_the_drivers_order(host: Callable[..., None]) -> None:
    host(*[PRO6000] * 5)
    assert lanes(gpus=2, lanes=2) == (("GPU-0", "GPU-1"), ("GPU-2", "GPU-3"))
    assert lanes(gpus=1, lanes=9) == (("GPU-0",), ("GPU-1",)), "no lane without a mode"


def test_a_profile_of_the_cpu_asks_no_driver(host: Callable[..., None]) -> None:
    host(RTX5090, state="silent")
    assert lanes(gpus=0, lanes=2) == ((), ())


def test_gpus_of_another_name_do_not_count(host: Callable[..., None]) -> None:
    host(RTX5090, PRO6000)
    assert lanes(gpus=1, lanes=1, gpu_name="RTX PRO 6000") == (("GPU-1",),)
    with pytest.raises(SetupFailure, match=r"needs 2 x RTX PRO 6000; this host has 1x NVIDIA GeForce RTX 5090, 1x"):
        lanes(gpus=1, lanes=2, gpu_name="RTX PRO 6000")


def test_a_host_without_gpus_says_so(host: Callable[..., None]) -> None:
    host(state="absent")
    with pytest.raises(SetupFailure, match="needs 4 x NVIDIA GPU; this host has no NVIDIA GPU"):
        lanes(gpus=4, lanes=1)


# --- the choice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "profile", "why"),
    [
        ((), "cpu-forged", "no NVIDIA GPU here"),
        (("NVIDIA GeForce RTX 5090",), "rtx5090", "one NVIDIA GeForce RTX 5090"),
        (("NVIDIA RTX PRO 6000 Blackwell",) * 4, "rtxpro6000x4", "four NVIDIA RTX PRO 6000 Blackwell"),
        (("NVIDIA GeForce RTX 5090",) * 2, "cpu-forged", "2x NVIDIA GeForce RTX 5090: no profile is shipped for that"),
        (("NVIDIA RTX PRO 6000 Blackwell",) * 3, "cpu-forged", "3x NVIDIA RTX PRO 6000 Blackwell"),
        (("NVIDIA RTX PRO 6000 Blackwell",) * 3 + ("NVIDIA H200",), "cpu-forged", "3x NVIDIA RTX PRO 6000"),
        (("NVIDIA H200", "NVIDIA L4", "NVIDIA H200"), "cpu-forged", "2x NVIDIA H200, 1x NVIDIA L4"),
    ],
)
def test_the_profile_is_that_of_the_gpus_and_the_reason_says_so(names: tuple[str, ...], profile: str, why: str) -> None:
    choice = choose_profile(found(*names))
    assert choice.profile == profile
    assert choice.why.startswith(why)


# --- some of the GPUs are somebody else's ----------------------------------------------------------------


def test_only_the_gpus_that_the_environment_names_are_used(
    host: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host(RTX5090, RTX5090)
    profile = small_profile({"host.gpus": 1})
    assert gpus_of_lanes(profile) == (("GPU-0",),)
    monkeypatch.setenv("QUALIFY_GPUS", "GPU-1")
    assert gpus_of_lanes(profile) == (("GPU-1",),)


def test_the_profile_is_that_of_the_gpus_that_are_left_and_the_reason_names_the_variable(
    host: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host(RTX5090, RTX5090)
    assert profile_of_this_host().profile == "cpu-forged"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    choice = profile_of_this_host()
    assert (choice.profile, choice.why) == ("rtx5090", f"one {RTX5090} (with CUDA_VISIBLE_DEVICES=1)")


def test_too_few_of_them_are_told_with_the_variable(host: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    host(RTX5090, RTX5090)
    monkeypatch.setenv("QUALIFY_GPUS", "GPU-1")
    with pytest.raises(SetupFailure, match="of which QUALIFY_GPUS=GPU-1 leaves 1"):
        gpus_of_lanes(small_profile({"host.gpus": 2}))


def test_a_gpu_that_is_not_there_is_not_ignored(host: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    host(RTX5090)
    monkeypatch.setenv("QUALIFY_GPUS", "GPU-7")
    with pytest.raises(SetupFailure, match="GPU-7, which this host has not"):
        gpus_of_lanes(small_profile({"host.gpus": 1}))
