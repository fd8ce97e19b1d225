"""Void says what broke, and never turns into a pass or a fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.observe.clocks import JUMP_S
from harness.words import ExitCode, Word

from .bundles import WARM, WARM_TOO, Session

JIT, PROMPTS, MEASURED = "late JIT (engine's monitor)", "identity, candidate vs control", "identity, measured outputs"
CLOCKS = "clocks kept pace"


# --- strangers and hits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_a_kernel_that_a_strangers_request_may_have_compiled_is_nobodys(tmp_path: Path, arm: str) -> None:
    session = Session(tmp_path).both(armed=True).candidate(armed=True, late_kernels=("_topk_kernel",))
    judged = getattr(session, arm)(faults={"prefill/48/0": "foreign"}).judge()
    row = judged.row(JIT)
    assert row.word is Word.VOID
    assert "prefill/48/0: a foreign request ran (requests: 2, 1 ours); new against control: _topk_kernel" in row.reason
    assert judged.verdict.exit_code == ExitCode.VOID


def test_nor_does_a_stranger_prove_that_no_kernel_is_late(tmp_path: Path) -> None:
    # It may have been the one that met the kernel in the control.
    session = Session(tmp_path).both(armed=True, late_kernels=("_topk_kernel",))
    judged = session.control(faults={"prefill/48/0": "foreign"}).judge()
    assert judged.row(JIT).word is Word.VOID


@pytest.mark.parametrize("fault", ["foreign", "prefix-hit", "preemption", "no-scrape", "reset"])
def test_outputs_that_were_computed_otherwise_are_not_compared(tmp_path: Path, fault: str) -> None:
    session = Session(tmp_path, forged=False).candidate(faults={"identity/0/1": fault}, diverge={"identity/0/1": 3})
    judged = session.judge()
    row = judged.row(PROMPTS)
    assert row.word is Word.VOID
    assert "identity/0/1: " in row.reason
    assert Word.FAIL not in judged.words()


def test_a_void_window_of_one_context_voids_no_outputs_of_another(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(faults={"decode/96/1": "foreign"}).judge()
    assert judged.row(MEASURED, context_tokens=96).word is Word.VOID
    assert judged.row(MEASURED, context_tokens=48).word is Word.PASS
    assert judged.row(PROMPTS).word is Word.PASS


def test_a_void_cell_voids_no_other(tmp_path: Path) -> None:
    session = Session(tmp_path, WARM_TOO).both(armed=True)
    judged = session.candidate(where=WARM, faults={"identity/0/0": "prefix-hit"}).judge()
    assert judged.row(PROMPTS, cache="warm").word is Word.VOID
    assert judged.row(PROMPTS, cache="cold").word is Word.PASS
    assert judged.row("identity, between warm-up and cache states").word is Word.VOID


def test_a_candidate_that_serves_too_little_still_fails_beside_a_void_row(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(faults={"decode/96/1": "foreign"}, short=("prefill/48/0",)).judge()
    assert judged.row("requests served in full").word is Word.FAIL
    assert judged.row("counts agree").word is Word.VOID
    assert judged.verdict.exit_code == ExitCode.FAIL


# --- clocks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", ["control", "candidate"])
@pytest.mark.parametrize("seconds", [3600.0, -3600.0, JUMP_S + 0.1])
def test_a_clock_that_was_set_voids_the_times_of_its_launch(tmp_path: Path, arm: str, seconds: float) -> None:
    judged = getattr(Session(tmp_path), arm)(clock_set=("health", seconds)).judge()
    row = judged.row(CLOCKS)
    assert row.word is Word.VOID
    assert f"{arm}-mtp1-engine-cold: the wall clock went {seconds:+,.1f} s against the monotonic one" in row.reason
    assert judged.verdict.exit_code == ExitCode.VOID
    for name in ("start-up", "first prompt", "prefill", "decode steps", "tokens per step"):
        for timed in judged.rows(name):
            assert (getattr(timed, arm), timed.word) == (None, Word.NOT_TESTED), name


def test_a_clock_that_is_slewed_kept_pace(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(clock_set=("health", JUMP_S - 0.1)).judge()
    assert (judged.row(CLOCKS).word, judged.row(CLOCKS).control) == (Word.PASS, "1 of 1")


def test_a_clock_that_nobody_read_is_not_said_to_have_jumped(tmp_path: Path) -> None:
    bundle = Session(tmp_path).build()
    from .bundles import Judged

    for timeline in bundle.root.glob("launches/*/timeline.jsonl"):
        text = timeline.read_text("utf-8")
        timeline.write_text("".join(f"{line}\n" for line in map(_without_wall, text.splitlines())), "utf-8")
    assert Judged.of(bundle).row(CLOCKS).word is Word.PASS


def _without_wall(line: str) -> str:
    import json

    return json.dumps(json.loads(line) | {"wall": ""})
