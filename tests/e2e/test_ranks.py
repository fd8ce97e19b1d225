"""Two ranks of real vLLM on the CPU: each is seen by itself, and the death of one is told by its name.

The model has DeepSeek-V3's attention (MLA), so that its counts are held against the rule here too, without a launch
of its own.
"""

from __future__ import annotations

import signal

import pytest

from harness.judge import ranks
from harness.words import Arm, ExitCode, LaunchStatus, Step, Word

from .cpu_ranks import Running, check_lines_and_memory, is_told_dead, launch, session, vanished
from .engine import NEEDS_ENGINE
from .sessions import Finished, left_running

MLA = "model.forge={ layers = 1, hidden = 256, head_size = 64, mla = true, intermediate = 256, seed = 1 }"
KILLED, SOUND = 1, 2

pytestmark = [pytest.mark.vllm, NEEDS_ENGINE, pytest.mark.xdist_group("ranks")]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Two launches, run once for all tests: rank 1 of the first is killed while it serves, the other one lives."""
    return session(tmp_path_factory.mktemp("ranks") / "results", _kill, MLA)


def _kill(running: Running) -> None:
    if running.comes_to(KILLED, Step.IDENTITY):
        running.rank("TP1").send_signal(signal.SIGKILL)


def test_the_death_of_one_rank_fails_the_launch_and_names_the_rank(done: Finished) -> None:
    record = launch(done, KILLED).record
    assert record is not None, done.out
    assert record.launch.arm is Arm.CANDIDATE
    assert (record.status, done.code) == (LaunchStatus.FAILED, ExitCode.FAIL), done.out
    row = done.row("served to the end")
    assert row.word is Word.FAIL
    for reason in (record.reason or "", row.reason):
        assert is_told_dead("TP1", reason), reason
        assert "TP0" not in reason, "its line about the lost connection follows from the death"


def test_nothing_is_left_running_of_either_launch(done: Finished) -> None:
    assert left_running(done.results) == []


def test_every_rank_has_its_own_lines_and_memory(done: Finished) -> None:
    sound = launch(done, SOUND)
    assert sound.record is not None
    assert sound.record.status is LaunchStatus.COMPLETED, done.out
    check_lines_and_memory(sound, ("TP0", "TP1"))


def test_every_rank_has_cpu_time_in_the_timed_passes(done: Finished) -> None:
    sound = launch(done, SOUND)
    spent = ranks.cpu_s(sound, ranks.ranks(sound))
    assert list(spent) == ["TP0", "TP1"]
    assert all(seconds is not None and seconds > 0 for seconds in spent.values()), spent


def test_the_vanished_process_tells_the_same_rank_as_the_log(done: Finished) -> None:
    """So the rank has a name where the log is lost; of the launch that was stopped nobody is blamed."""
    assert vanished(launch(done, KILLED)).startswith("worker TP1 vanished")
    assert vanished(launch(done, SOUND)) == "None"


def test_report_and_page_show_both_ranks(done: Finished) -> None:
    row = done.row("KV memory by rank")
    assert (row.control, row.unit) == ("1.00 (1.00-1.00)", "GiB/rank")
    assert "KV memory, GiB/rank" in (done.bundle.report_dir / "report.md").read_text("utf-8")
    page = (done.bundle.report_dir / "report.html").read_text("utf-8")
    assert "Rank by rank" in page
    assert "<td>TP1</td>" in page


def test_the_counts_of_mla_on_two_ranks_are_the_rules(done: Finished) -> None:
    windows = launch(done, SOUND).windows
    assert {w.window.step for w in windows} >= {Step.FIRST_PROMPT, Step.DECODE, Step.IDENTITY}
    assert [w.unserved or w.miscounted for w in windows] == [None] * len(windows)
    row = done.row("known answers")
    assert row.control is not None
    exact, _, of = row.control.partition(" windows")[0].partition(" of ")
    assert (exact, int(exact) > 0) == (of, True), row
