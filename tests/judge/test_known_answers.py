"""A forged model's outputs and drafts against its rule, in the control and in the candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.forge.recipe import Recipe
from harness.judge.read import read_launch
from harness.words import Arm, ExitCode, Word

from .bundles import Judged, Session

KNOWN = "known answers"
COUNTS = "counts agree"


def test_an_output_that_the_rule_does_not_give_fails_in_the_candidate(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(diverge={"prefill/48/1": 0}).judge()
    row = judged.row(KNOWN)
    assert (row.word, row.candidate) == (Word.FAIL, "11 of 12 windows exact")
    assert "prefill/48/1: output of request" in row.reason
    assert row.reason.endswith("is not what the candidate's rule gives")


def test_an_output_that_the_rule_does_not_give_voids_in_the_control(tmp_path: Path) -> None:
    judged = Session(tmp_path).control(diverge={"prefill/48/1": 0}).judge()
    assert judged.row(KNOWN).word is Word.VOID
    assert "the control is not what its model must be" in judged.row(KNOWN).reason


def test_drafts_are_held_against_the_rule_though_they_add_up(tmp_path: Path) -> None:
    # Same outputs, consistent counters, but not the drafter whose weights the lock names.
    judged = Session(tmp_path).candidate(drafter=Recipe(vocab=24, seed=1, wrong_drafts=0.6)).judge()
    row = judged.row(KNOWN)
    assert row.word is Word.FAIL
    assert "accepted/drafted" in row.reason
    assert judged.row(COUNTS).word is Word.PASS
    assert judged.row("identity, candidate vs control").word is Word.PASS


def test_another_seed_of_prompts_than_the_plans_is_found_out(tmp_path: Path) -> None:
    session = Session(tmp_path)
    bundle = session.build()
    [launch] = [x for x in session.plan.launches if x.arm is Arm.CANDIDATE]
    file = bundle.launch(launch.id).requests_file
    genuine = read_launch(bundle.launch(launch.id)).windows[1].requests[0].prompt_sha256
    file.write_text(file.read_text("utf-8").replace(genuine, "f" * 64), "utf-8")
    row = Judged.of(bundle).row(KNOWN)
    assert row.word is Word.FAIL
    assert "is not the one that the plan's seed gives" in row.reason


def test_models_that_are_not_forged_have_no_known_answers(tmp_path: Path) -> None:
    judged = Session(tmp_path, forged=False).judge()
    assert not judged.rows(KNOWN)
    assert judged.verdict.exit_code == ExitCode.PASS


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_an_arm_without_a_window_is_not_known_to_answer_right(tmp_path: Path, arm: str) -> None:
    judged = getattr(Session(tmp_path), arm)(stage="health").judge()
    assert judged.row(KNOWN).word is Word.NOT_TESTED


def test_more_than_one_draft_token_leaves_outputs_to_check(tmp_path: Path) -> None:
    mode = {"draft_tokens": 3, "flags": {"speculative-config": {"method": "mtp", "num_speculative_tokens": 3}}}
    judged = Session(tmp_path, {"modes.mtp3": mode, "plan.modes": ["mtp3"]}).judge()
    assert judged.row(KNOWN).word is Word.PASS
