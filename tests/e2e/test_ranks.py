"""Two ranks of real vLLM on the CPU: each is seen by itself, and the death of one is told by its name.

The model has DeepSeek-V3's attention (MLA), so that its counts are held against the rule here too, without a launch
of its own.
"""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from harness.config.load import load_profile
from harness.evidence.bundle import LaunchDir
from harness.judge import ranks
from harness.judge.case import read_case
from harness.judge.read import LaunchEvidence
from harness.observe.log import Kind
from harness.observe.vanished import vanished_worker
from harness.session.compose import engine_command
from harness.words import Arm, ExitCode, LaunchStatus, Step, Word

from .sessions import Finished, left_running, start, wait_for

PROFILE = "cpu-forged-tp2"
MLA = "model.forge={ layers = 1, hidden = 256, head_size = 64, mla = true, intermediate = 256, seed = 1 }"
ENGINE = engine_command(load_profile(PROFILE).model)[0]
READY_S = 900.0

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(shutil.which(ENGINE) is None, reason=f"{ENGINE} is not installed; run `make setup`"),
    pytest.mark.xdist_group("ranks"),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Two launches, run once for all tests: rank 1 of the first is killed while it serves, the other one lives."""
    results = tmp_path_factory.mktemp("ranks") / "results"
    sets = ("--set", MLA, "--set", "client.selftest_s=0", "--set", "plan.rerun_void=false")
    process = start(results, "--profile", PROFILE, "--no-history", *sets)
    try:
        wait_for(lambda: _serves(results) or process.poll() is not None, READY_S)
        if process.poll() is None:
            _worker(results, "VLLM::Worker_TP1").send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=READY_S)
    finally:
        process.kill()
    return Finished(process.returncode, out, results)


def _serves(results: Path) -> bool:
    """The first launch is in mid-run: timed passes are over, and identity prompts are asked."""
    files = [LaunchDir(folder).timeline_file for folder in results.glob("2*/launches/001-*")]
    return any(f'"{Step.IDENTITY}"' in f.read_text("utf-8") for f in files if f.is_file())


def _worker(results: Path, title: str) -> psutil.Process:
    [found] = [p for p in left_running(results) if title in p.cmdline()[:1]]
    return found


def launch(done: Finished, *, killed: bool) -> LaunchEvidence:
    """The first launch, or the other one."""
    [found] = [x for x in read_case(done.bundle).launches.values() if x.record and killed == (_ordinal(x) == 1)]
    return found


def _ordinal(found: LaunchEvidence) -> int:
    assert found.record is not None
    return found.record.launch.ordinal


def test_the_death_of_one_rank_fails_the_launch_and_names_the_rank(done: Finished) -> None:
    record = launch(done, killed=True).record
    assert record is not None, done.out
    assert record.launch.arm is Arm.CANDIDATE
    assert (record.status, done.code) == (LaunchStatus.FAILED, ExitCode.FAIL), done.out
    row = done.row("served to the end")
    assert row.word is Word.FAIL
    for reason in (record.reason or "", row.reason):  # vLLM asks for the code before it is there now and then: "None"
        assert re.search(r"worker TP1 died(?! \()|worker TP1 died \(exit code -9\)", reason), reason
        assert "TP0" not in reason


def test_nothing_is_left_running_of_either_launch(done: Finished) -> None:
    assert left_running(done.results) == []


def test_every_rank_has_its_own_lines_and_memory(done: Finished) -> None:
    sound = launch(done, killed=False)
    assert sound.record is not None
    assert sound.record.status is LaunchStatus.COMPLETED, done.out
    known = ranks.ranks(sound)
    assert known.names == ("TP0", "TP1")
    assert {known.of(e) for e in sound.of_kind(Kind.MEMORY_FIXED)} == set(known.names)
    assert ranks.kv_gib(sound, known) == {"TP0": 1.0, "TP1": 1.0}
    stop = sound.mark_ns("stop asked")
    sizes = ranks.host_mib(sound, known, lambda series: series.last_before(stop))
    assert all(mib is not None and mib > 100 for mib in sizes.values()), sizes


def test_every_rank_has_cpu_time_in_the_timed_passes(done: Finished) -> None:
    sound = launch(done, killed=False)
    spent = ranks.cpu_s(sound, ranks.ranks(sound))
    assert list(spent) == ["TP0", "TP1"]
    assert all(seconds is not None and seconds > 0 for seconds in spent.values()), spent


def test_the_vanished_process_tells_the_same_rank_as_the_log(done: Finished) -> None:
    """So the rank has a name where the log is lost; of the launch that was stopped nobody is blamed."""
    for killed, told in ((True, "worker TP1 vanished"), (False, "None")):
        found = launch(done, killed=killed)
        stop = found.mark_ns("stop asked")
        assert stop is not None
        table = pq.read_table(found.folder.host_samples_file).to_pylist()
        assert str(vanished_worker([*row.values()] for row in table if row["mono_ns"] <= stop)).startswith(told)


def test_report_and_page_show_both_ranks(done: Finished) -> None:
    row = done.row("KV memory by rank")
    assert (row.control, row.unit) == ("1.00 (1.00-1.00)", "GiB/rank")
    assert "KV memory, GiB/rank" in (done.bundle.report_dir / "report.md").read_text("utf-8")
    page = (done.bundle.report_dir / "report.html").read_text("utf-8")
    assert "Rank by rank" in page
    assert "<td>TP1</td>" in page


def test_the_counts_of_mla_on_two_ranks_are_the_rules(done: Finished) -> None:
    windows = launch(done, killed=False).windows
    assert {w.window.step for w in windows} >= {Step.FIRST_PROMPT, Step.DECODE, Step.IDENTITY}
    assert [w.unserved or w.miscounted for w in windows] == [None] * len(windows)
    row = done.row("known answers")
    assert row.control is not None
    exact, _, of = row.control.partition(" windows")[0].partition(" of ")
    assert (exact, int(exact) > 0) == (of, True), row
