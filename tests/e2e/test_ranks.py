"""Two ranks of real vLLM on the CPU: each is seen by itself, and the death of one is told by its name."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import psutil
import pytest

from harness.config.load import load_profile
from harness.evidence.bundle import LaunchDir
from harness.judge.case import read_case
from harness.judge.read import LaunchEvidence
from harness.session.compose import engine_command
from harness.words import Arm, ExitCode, LaunchStatus, Word

from .sessions import Finished, left_running, start, wait_for

PROFILE = "cpu-forged-tp2"
ENGINE = engine_command(load_profile(PROFILE).model)[0]
READY_S = 600.0

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(shutil.which(ENGINE) is None, reason=f"{ENGINE} is not installed; run `make setup`"),
    pytest.mark.xdist_group("ranks"),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Two launches, run once for all tests: rank 1 of the candidate is killed while it serves, the control lives."""
    results = tmp_path_factory.mktemp("ranks") / "results"
    process = start(results, "--profile", PROFILE, "--set", "client.selftest_s=0")
    try:
        wait_for(lambda: _serves(results) or process.poll() is not None, READY_S)
        _worker(results, "VLLM::Worker_TP1").send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=READY_S)
    finally:
        process.kill()
    return Finished(process.returncode, out, results)


def _serves(results: Path) -> bool:
    """The first launch has been asked for its first prompt: it is in mid-run."""
    [folder, *_] = [*sorted(results.glob("2*/launches/001-*")), None]
    if folder is None or not (file := LaunchDir(folder).timeline_file).is_file():
        return False
    return "step begins" in file.read_text("utf-8")


def _worker(results: Path, title: str) -> psutil.Process:
    [found] = [p for p in left_running(results) if title in p.cmdline()[:1]]
    return found


def launch(done: Finished, arm: Arm) -> LaunchEvidence:
    [found] = [x for x in read_case(done.bundle).launches.values() if x.record and x.record.launch.arm is arm]
    return found


def test_the_death_of_one_rank_fails_the_launch_and_names_the_rank(done: Finished) -> None:
    assert done.code == ExitCode.FAIL, done.out
    record = launch(done, Arm.CANDIDATE).record
    assert record is not None
    assert (record.status, record.launch.ordinal) == (LaunchStatus.FAILED, 1)
    assert record.reason is not None
    assert "TP1" in record.reason
    assert "TP0" not in record.reason
    row = done.row("served to the end")
    assert row.word is Word.FAIL
    assert "TP1" in row.reason
