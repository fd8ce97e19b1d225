"""A fake server of several ranks has a process for each, which bears vLLM's title and is never left behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from harness.fakes.folder import write_rule_folder
from harness.fakes.settings import read_settings
from harness.fakes.worker_process import TAKEN_MIB
from harness.forge.recipe import Recipe
from tests.fakes.fake_process import Fake, fake

TWO = ("--tensor-parallel-size", "2")
TITLES = ["VLLM::Worker_TP0", "VLLM::Worker_TP1"]
DEADLINE_S = 5.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rule_folder(tmp_path_factory.mktemp("workers") / "model", Recipe())


def workers(server: Fake) -> list[psutil.Process]:
    return sorted(psutil.Process(server.process.pid).children(), key=lambda process: process.name())


def runs(process: psutil.Process) -> bool:
    """A zombie does not: in a container there may be nobody who asks for an orphan's code."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("", ()),
        ("--tensor-parallel-size 1 --enable-expert-parallel", ()),
        ("--tensor-parallel-size 2", ("Worker_TP0", "Worker_TP1")),
        ("--pipeline-parallel-size 2", ("Worker_PP0", "Worker_PP1")),
        (
            "--tensor-parallel-size 4 --decode-context-parallel-size 2",
            ("Worker_TP0_DCP0", "Worker_TP1_DCP1", "Worker_TP2_DCP0", "Worker_TP3_DCP1"),
        ),
        (
            "--tensor-parallel-size 2 --pipeline-parallel-size 2 --enable-expert-parallel",
            ("Worker_PP0_TP0_EP0", "Worker_PP0_TP1_EP1", "Worker_PP1_TP0_EP0", "Worker_PP1_TP1_EP1"),
        ),
    ],
)
def test_names_are_built_of_every_parallelism_that_is_in_use(model: Path, flags: str, names: tuple[str, ...]) -> None:
    assert read_settings([str(model), *flags.split()], {}).worker_names == names


def test_each_rank_has_a_process_with_its_title_and_lines_with_its_pid(model: Path) -> None:
    with fake(model, *TWO) as server:
        found = workers(server)
        assert [w.name() for w in found] == TITLES, "psutil, and so the sampler, reads it as setproctitle's"
        assert [w.cmdline()[0] for w in found] == TITLES
        for rank, worker in enumerate(found):
            assert f"(Worker pid={worker.pid}) INFO" in server.log
            assert f"world_size=2 rank={rank} local_rank={rank} " in server.log
            assert f"(Worker_TP{rank} pid={worker.pid}) INFO" in server.log


def test_a_single_rank_has_none(model: Path) -> None:
    with fake(model) as server:
        assert workers(server) == []
        assert f"(Worker pid={server.process.pid}) INFO" in server.log


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_they_end_with_their_server_and_so_do_their_children(model: Path, end: signal.Signals) -> None:
    with fake(model, *TWO, faults="worker-forks=1") as server:
        server.complete([1], 1)
        found = psutil.Process(server.process.pid).children(recursive=True)
        assert len(found) == 4
        server.process.send_signal(end)
        server.wait_for_exit()
        deadline = time.monotonic() + DEADLINE_S
        while any(map(runs, found)):
            assert time.monotonic() < deadline, found
            time.sleep(0.01)


def test_worker_forks(model: Path) -> None:
    with fake(model, *TWO, faults="worker-forks=2,on-rank=1") as server:
        server.complete([1], 1)
        first, second = workers(server)
        assert second.children() == []
        server.complete([1], 1)
        [child] = second.children()
        assert (child.name(), first.children()) == (TITLES[1], [])
        assert second.memory_info().rss - child.memory_info().rss > TAKEN_MIB << 19


def test_worker_vanishes(model: Path) -> None:
    with fake(model, *TWO, faults="worker-vanishes=2,on-rank=0") as server:
        server.complete([1], 1)
        assert len(workers(server)) == 2
        before = server.log
        assert server.complete([1], 1).ok, "it serves on"
        assert [w.name() for w in workers(server)] == TITLES[1:]
        assert "Worker" not in server.log.removeprefix(before), "no line tells of it"
