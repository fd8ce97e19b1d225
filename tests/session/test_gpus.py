"""A lane's GPUs before and after a launch: free, taken, or not to be told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.evidence.bundle import LaunchDir
from harness.fakes.gpu_user import Registration, register
from harness.fakes.nvml import VARIABLE, Gpu, Host, write_host
from harness.launch.launcher import LaunchFailed
from harness.records import GPU_STAGE, GpuWatch
from harness.session.gpus import GpuGuard
from tests.judge.bundles import small_profile

HERE = os.getpid()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "nvml"
    write_host(folder, Host((Gpu("GPU-0"),)))
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Callable[..., GpuGuard]]:
    """Makes guards of launches that follow each other in one lane."""
    baseline: dict[str, int] = {}
    made: list[GpuGuard] = []

    def make(*uuids: str) -> GpuGuard:
        folder = LaunchDir(tmp_path / f"launch-{len(made)}")
        folder.root.mkdir()
        profile = small_profile({"timeouts.gpu_release_s": 0.2})
        made.append(GpuGuard(profile, uuids or ("GPU-0",), folder, baseline))
        return made[-1]

    yield make
    for one in made:
        one.finish()


def held(mib: int) -> Registration:
    """Memory that outlived whoever took it."""
    return Registration(4_194_305, 0.0, ("GPU-0",), mib, linger_s=600)


def watched(guard: GpuGuard) -> GpuWatch:
    assert guard.watch is not None
    return guard.watch


@pytest.mark.usefixtures("host")
def test_without_gpus_nothing_is_done(tmp_path: Path) -> None:
    guard = GpuGuard(small_profile({}), (), LaunchDir(tmp_path), {})
    guard.begin()
    guard.own([1])
    guard.read(everything=True)
    assert guard.server_ended() is None
    assert guard.finish() is None


@pytest.mark.usefixtures("host")
def test_a_free_gpu_stays_free(guard: Callable[..., GpuGuard]) -> None:
    one = guard()
    one.begin()
    assert one.server_ended() is True
    watch = one.finish()
    assert watch == one.finish(), "safe to call twice"
    assert watch is not None
    assert (watch.holders, watch.fault) == ("", "")
    assert [s.used_bytes for s in (*watch.before, *watch.after)] == [0, 0]
    assert watch.sampling is not None


def test_somebody_who_computes_there_is_named(host: Path, guard: Callable[..., GpuGuard]) -> None:
    register(host, HERE, ("GPU-0",), 300)
    with pytest.raises(LaunchFailed, match=rf"GPU-0 is in use by .* \(pid {HERE}, 300 MiB\); waited 0.2 s") as caught:
        guard().begin()
    assert caught.value.stage == GPU_STAGE


def test_a_gpu_that_hangs_in_a_kernel_of_nobodys_is_not_free(host: Path, guard: Callable[..., GpuGuard]) -> None:
    """As after a hung collective: no process, no memory in use, all SMs busy at 120 W."""
    write_host(host, Host((Gpu("GPU-0", values={"gpu_pct": 100, "power_mw": 120_000}),)))
    with pytest.raises(LaunchFailed, match="GPU-0 is 100 % busy, and the driver lists nobody on it") as caught:
        guard().begin()
    assert caught.value.stage == GPU_STAGE


@pytest.mark.parametrize(
    "gpu",
    [
        Gpu("GPU-0", values={"gpu_pct": 90}),
        Gpu("GPU-0", values={"gpu_pct": 100}, unreadable={"users": "NOT_SUPPORTED"}),
        Gpu("GPU-0", unreadable={"gpu_pct": "NOT_SUPPORTED"}),
    ],
    ids=["less-busy", "processes-not-listed", "not-told"],
)
def test_a_gpu_of_which_that_cannot_be_said_is_let_be(host: Path, guard: Callable[..., GpuGuard], gpu: Gpu) -> None:
    write_host(host, Host((gpu,)))
    guard().begin()


def test_a_desktop_may_keep_its_gpu_busy(host: Path, guard: Callable[..., GpuGuard]) -> None:
    write_host(host, Host((Gpu("GPU-0", values={"gpu_pct": 100}),)))
    register(host, HERE, ("GPU-0",), 300, compute=False)
    one = guard()
    one.begin()
    assert watched(one).before[0].busy_pct == 100


def test_somebody_who_only_draws_is_let_be(host: Path, guard: Callable[..., GpuGuard]) -> None:
    register(host, HERE, ("GPU-0",), 3_000, compute=False)
    one = guard()
    one.begin()
    assert watched(one).before[0].used_bytes == 3_000 << 20
    assert one.server_ended() is True


def test_much_memory_in_nobodys_hands_is_not_free_before_the_first_launch(
    host: Path, guard: Callable[..., GpuGuard]
) -> None:
    held(1_025).write(host)
    with pytest.raises(LaunchFailed, match="1,025 MiB more in use than when it is free, held by nobody"):
        guard().begin()
    held(1_024).write(host)
    guard().begin()


def test_a_later_launch_is_held_against_what_the_first_one_found(host: Path, guard: Callable[..., GpuGuard]) -> None:
    held(500).write(host)
    guard().begin()
    held(628).write(host)
    guard().begin()
    held(629).write(host)
    with pytest.raises(LaunchFailed, match="129 MiB more in use"):
        guard().begin()


def test_memory_that_stays_is_told_with_its_holder(host: Path, guard: Callable[..., GpuGuard]) -> None:
    one = guard()
    one.begin()
    register(host, HERE, ("GPU-0",), 700)
    one.own([HERE])
    assert one.server_ended() is False
    watch = watched(one)
    assert f"(pid {HERE}, 700 MiB)" in watch.holders
    assert watch.return_s is not None
    assert watch.return_s >= 0.2
    [state] = watch.after
    assert state.processes is not None
    assert [p.owner for p in state.processes] == ["own"]


def test_what_cannot_be_read_is_neither_back_nor_not(host: Path, guard: Callable[..., GpuGuard]) -> None:
    write_host(host, Host((Gpu("GPU-0", mig=True),)))
    one = guard()
    one.begin()
    assert one.server_ended() is None
    assert watched(one).returned is None
    assert watched(one).facts[0].mig is True


@pytest.mark.usefixtures("host")
def test_a_sampler_that_died_costs_the_launch_nothing_and_is_told(guard: Callable[..., GpuGuard]) -> None:
    one = guard()
    one.begin()
    [child] = [c for c in psutil.Process().children() if "harness.observe.gpu" in c.cmdline()]
    child.kill()
    child.wait(10)
    one.own([HERE])
    one.read()
    assert one.server_ended() is None
    watch = one.finish()
    assert watch is not None
    assert "ended" in watch.fault
    assert watch.sampling is None


@pytest.mark.usefixtures("host")
def test_a_gpu_that_is_not_there_cannot_be_watched(guard: Callable[..., GpuGuard]) -> None:
    with pytest.raises(LaunchFailed, match="cannot be watched: NOT_FOUND") as caught:
        guard("GPU-9").begin()
    assert caught.value.stage == GPU_STAGE
