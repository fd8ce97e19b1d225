"""Sessions of a server with a process per rank: each is told by its own, and one that is gone by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.fakes.worker_process import TAKEN_MIB
from harness.judge import ranks
from harness.judge.case import read_case
from harness.judge.read import LaunchEvidence
from harness.words import Arm, ExitCode, LaunchStatus, Word

from .sessions import Finished, fake_profile, left_running, run, sets, stack

HOST = "host memory by rank"
GIVES_OUT_AT = {"2K": 2, "first prefill pass": 4}
"""By number of the completion: the first one is the readiness completion."""


def session(folder: Path, candidate: str, *, only: str = "first_prompt", flags: tuple[str, ...] = ()) -> Finished:
    """A session on two ranks whose candidate has these faults."""
    arms = ("--candidate", str(stack(folder, "faulty", QUALIFY_FAKE_FAULTS=candidate)))
    options = sets(*(f"serve.flags.{flag}" for flag in ("tensor-parallel-size=2", *flags)))
    return run(folder / "results", "--profile", str(fake_profile(folder)), *arms, *options, "-k", only)


def launch(done: Finished, arm: Arm) -> LaunchEvidence:
    [found] = [x for x in read_case(done.bundle).launches.values() if x.record and x.record.launch.arm is arm]
    return found


def pid(found: LaunchEvidence, rank: str) -> int:
    """Of a rank, as the log names it."""
    [known] = [number for number, name in ranks.ranks(found).by_pid.items() if name == rank]
    return known


class TestARankThatVanishes:
    """No line tells of it: its process was there in the samples, and then it was not."""

    def test_a_vanished_rank_fails_the_launch_though_its_server_serves_on(self, tmp_path: Path) -> None:
        done = session(tmp_path, f"worker-vanishes={GIVES_OUT_AT['2K']},on-rank=1")
        found = launch(done, Arm.CANDIDATE)
        assert found.record is not None
        assert (found.record.status, found.record.stage) == (LaunchStatus.FAILED, "after ready"), done.out
        told = f"worker TP1 vanished (pid {pid(found, 'TP1')}, seen last "
        row = done.row("served to the end")
        for reason in (found.record.reason or "", row.reason):
            assert told in reason
            assert "TP0" not in reason
        assert (row.word, done.code) == (Word.FAIL, ExitCode.FAIL)
        assert "died" not in found.folder.log_file.read_text("utf-8"), "the log would have told it"
        assert not left_running(done.results)

    def test_is_named_beside_the_end_of_the_server_that_it_brought_down(self, tmp_path: Path) -> None:
        ends = f"worker-vanishes={GIVES_OUT_AT['2K']},on-rank=0,die-after={GIVES_OUT_AT['first prefill pass']}"
        done = session(tmp_path, ends, only="first_prompt or prefill")
        record = launch(done, Arm.CANDIDATE).record
        assert record is not None
        end, _, rank = (record.reason or "").partition("; ")
        assert end == "the server ended by itself (exit code 1)", done.out
        assert rank.startswith("worker TP0 vanished (pid ")
        assert not left_running(done.results)

    def test_is_named_though_a_child_lives_on_that_bears_its_title(self, tmp_path: Path) -> None:
        done = session(tmp_path, f"worker-forks=1,worker-vanishes={GIVES_OUT_AT['2K']},on-rank=1")
        found = launch(done, Arm.CANDIDATE)
        assert f"worker TP1 vanished (pid {pid(found, 'TP1')}, " in done.row("served to the end").reason, done.out
        assert not left_running(done.results)

    def test_has_the_name_that_all_its_parallelisms_give_it(self, tmp_path: Path) -> None:
        flags = ("decode-context-parallel-size=2", "enable-expert-parallel=true", "pipeline-parallel-size=2")
        done = session(tmp_path, f"worker-vanishes={GIVES_OUT_AT['2K']},on-rank=3", flags=flags)
        names = ("PP0 TP0 DCP0 EP0", "PP0 TP1 DCP1 EP1", "PP1 TP0 DCP0 EP0", "PP1 TP1 DCP1 EP1")
        assert {ranks.ranks(launch(done, arm)).names for arm in Arm} == {names}, done.out
        assert "worker PP1 TP1 DCP1 EP1 vanished (pid " in done.row("served to the end").reason


class TestAChildThatBearsItsRanksTitle:
    """A process that a worker forks has its title until it is given a program of its own."""

    @pytest.fixture(scope="class")
    @staticmethod
    def done(tmp_path_factory: pytest.TempPathFactory) -> Finished:
        return session(tmp_path_factory.mktemp("forks"), "worker-forks=1,on-rank=1")

    def test_does_not_replace_its_ranks_memory(self, done: Finished) -> None:
        found = launch(done, Arm.CANDIDATE)
        titles = [p.pid for p in found.processes if p.name == "VLLM::Worker_TP1"]
        assert len(titles) == 2, done.out
        assert pid(found, "TP1") in titles
        stop = found.mark_ns("stop asked")
        for measure in ("PSS", "RSS"):
            sizes = ranks.host_mib(found, ranks.ranks(found), lambda series: series.last_before(stop), measure)
            assert sizes["TP1"] is not None
            assert sizes["TP1"] > TAKEN_MIB > (sizes["TP0"] or TAKEN_MIB), "the child has not what its rank took"

    def test_and_the_row_shows_the_rank_that_took_more(self, done: Finished) -> None:
        row = done.row(HOST)
        assert "worst of the candidate: TP1 in " in row.reason, row
        assert row.candidate is not None
        worst, _, both = row.candidate.partition(" ")
        assert float(worst) > TAKEN_MIB
        assert both.endswith(f"-{worst})")

    def test_accuses_nobody(self, done: Finished) -> None:
        assert done.row("served to the end").word is Word.PASS
        assert done.code == ExitCode.PASS
        assert not left_running(done.results)
