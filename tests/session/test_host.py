"""Which profile fits this host, and what a driver that gives no answer means."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.session.host import Gpu, choose_profile, gpus, gpus_of_lanes, parse_query
from harness.words import ExitCode
from tests.judge.bundles import small_profile

RTX5090 = "NVIDIA GeForce RTX 5090, 32607, GPU-8e0b2f4e-3a52-4a7f-9e0c-2c0b6f3f6a11"
PRO6000 = "NVIDIA RTX PRO 6000 Blackwell Server Edition, 97887, GPU-{}"


def found(*names: str) -> tuple[Gpu, ...]:
    return tuple(Gpu(name, 32_607, f"GPU-{n}") for n, name in enumerate(names))


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nvidia-smi, alone in the PATH; write the script's body into it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "nvidia-smi"


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


# --- what the driver says ----------------------------------------------------------------------------


def test_rows_of_the_driver_become_gpus() -> None:
    text = "\n".join([RTX5090, *(PRO6000.format(n) for n in range(2)), ""])
    assert parse_query(text) == (
        Gpu("NVIDIA GeForce RTX 5090", 32_607, "GPU-8e0b2f4e-3a52-4a7f-9e0c-2c0b6f3f6a11"),
        Gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, "GPU-0"),
        Gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, "GPU-1"),
    )


@pytest.mark.parametrize("text", ["", "\n", "  \n\n"])
def test_no_row_is_no_gpu(text: str) -> None:
    assert parse_query(text) == ()


@pytest.mark.parametrize(
    "text", ["No devices were found", "RTX 5090, [N/A], GPU-1", "RTX 5090, 32607", "a, 1, b, c", "a, 32607 MiB, b"]
)
def test_a_row_of_another_form_is_no_gpu_of_zero_bytes(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whichever part cannot be read
        parse_query(text)


def test_a_host_without_a_driver_has_no_gpus(driver: Path) -> None:
    assert not driver.exists()
    assert gpus() == ()


def test_the_driver_is_asked(driver: Path) -> None:
    script(driver, f'[ "$1" = "--query-gpu=name,memory.total,uuid" ] && echo "{RTX5090}"')
    assert [g.memory_mib for g in gpus()] == [32_607]


@pytest.mark.parametrize("body", ["exit 9", "echo 'Failed to initialize NVML: Driver/library version mismatch'"])
def test_a_driver_that_gives_no_answer_is_a_setup_failure_and_no_host_without_gpus(driver: Path, body: str) -> None:
    script(driver, body)
    with pytest.raises(SetupFailure, match="nvidia-smi is installed but gives no answer") as caught:
        gpus()
    assert caught.value.exit_code == ExitCode.SETUP_FAILURE
    assert "mend the driver, or choose PROFILE=" in str(caught.value)


# --- lanes -------------------------------------------------------------------------------------------


def lanes(**host: object) -> tuple[tuple[str, ...], ...]:
    values = {"plan.modes": ["mtp0", "mtp1"]} | {f"host.{k}": v for k, v in host.items()}
    return gpus_of_lanes(small_profile(values))


def test_every_lane_gets_gpus_of_its_own_in_the_drivers_order(driver: Path) -> None:
    script(driver, "\n".join(f"echo '{PRO6000.format(n)}'" for n in range(5)))
    assert lanes(gpus=2, lanes=2) == (("GPU-0", "GPU-1"), ("GPU-2", "GPU-3"))
    assert lanes(gpus=1, lanes=9) == (("GPU-0",), ("GPU-1",)), "no lane without a mode"


def test_a_profile_of_the_cpu_asks_no_driver(driver: Path) -> None:
    script(driver, "exit 9")
    assert lanes(gpus=0, lanes=2) == ((), ())


def test_gpus_of_another_name_do_not_count(driver: Path) -> None:
    script(driver, f"echo '{RTX5090}'; echo '{PRO6000.format(1)}'")
    assert lanes(gpus=1, lanes=1, gpu_name="RTX PRO 6000") == (("GPU-1",),)
    with pytest.raises(SetupFailure, match=r"needs 2 x RTX PRO 6000; this host has 1x NVIDIA GeForce RTX 5090, 1x"):
        lanes(gpus=1, lanes=2, gpu_name="RTX PRO 6000")


def test_a_host_without_gpus_says_so(driver: Path) -> None:
    assert not driver.exists()
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
