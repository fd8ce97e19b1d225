"""Whole sessions: what the arms did, and the one word that it comes to."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from harness.client.prompts import PromptKey, prompt_ids
from harness.judge.verdict import overall
from harness.records import Row
from harness.words import VERDICT_EXIT, Arm, ExitCode, Step, Word

from .bundles import COLD, WARM, WARM_TOO, Session, stack

SPEED = ("prefill", "decode", "decode steps", "first prompt", "tokens per step", "start-up")
INVARIANTS = (
    "served to the end",
    "late compiles (caches)",
    "KV tokens",
    "known answers",
    "identity, candidate vs control",
    "identity, measured outputs",
    "requests served in full",
    "counts agree",
    "errors while serving",
    "session complete",
    "launch order",
    "evidence whole",
)


def prompt(session: Session, step: Step, context: int, pass_number: int, index: int, tokens: int) -> list[int]:
    return prompt_ids(PromptKey(session.plan.seed, step, context, pass_number, index), tokens, 24)


# --- equal arms --------------------------------------------------------------------------------------


def test_equal_arms_pass_every_invariant_and_test_no_speed_at_one_pair(tmp_path: Path) -> None:
    judged = Session(
        tmp_path, WARM_TOO | {"plan.modes": ["mtp0", "mtp1"], "plan.warmups": ["engine", "primed"]}
    ).judge()
    assert (judged.verdict.verdict, judged.verdict.exit_code) == (Word.PASS, ExitCode.PASS)
    for name in INVARIANTS:
        assert {r.word for r in judged.rows(name)} == {Word.PASS}, name
    for name in SPEED:
        assert {r.word for r in judged.rows(name)} == {Word.NOT_TESTED}, name
    assert set(judged.words()) == {Word.PASS, Word.NOT_TESTED, Word.NOTE}
    assert judged.words()[Word.NOTE] == {"identity, mtp0 vs mtp1 (reported, not gated)"}


def test_one_pair_shows_its_figures_and_says_how_to_test_them(tmp_path: Path) -> None:
    judged = Session(tmp_path, WARM_TOO).candidate(speed=0.5).judge()
    row = judged.row("prefill", cache="warm", context_tokens=96)
    assert (row.word, row.control, row.candidate, row.unit) == (Word.NOT_TESTED, "10,000.0", "5,000.0", "tok/s")
    assert "-50.0 %" in row.reason
    assert "--pairs 4" in row.reason
    assert judged.verdict.exit_code == ExitCode.PASS


# --- the drafter differs -----------------------------------------------------------------------------


def test_other_acceptance_warns_with_the_exact_counts_and_is_not_called_slower(tmp_path: Path) -> None:
    session = Session(tmp_path, candidate=stack("worse-drafts", {"wrong_drafts": 0.6}))
    judged = session.judge()
    assert judged.verdict.verdict is Word.PASS

    counts: dict[Arm, tuple[int, int]] = {}
    per_step: dict[Arm, float] = {}
    for arm in Arm:
        prompts = [prompt(session, Step.DECODE, 96, n, 0, 96) for n in (0, 1)]
        answers = [session.recipe(arm).rule.expected(p, 30, draft_tokens=1) for p in prompts]
        counts[arm] = (sum(a.accepted for a in answers), sum(a.drafts for a in answers))
        per_step[arm] = median(29 / a.drafts for a in answers)
    row = judged.row("accepted / drafted, decode", context_tokens=96)
    assert row.word is Word.WARN
    assert "the drafts are worse, not the engine's speed" in row.reason
    for arm, text in ((Arm.CONTROL, row.control), (Arm.CANDIDATE, row.candidate)):
        assert text is not None
        assert text.startswith("{}/{} = ".format(*counts[arm]))

    assert judged.row("identity, candidate vs control").word is Word.PASS
    assert judged.row("known answers").word is Word.PASS
    slower = per_step[Arm.CANDIDATE] / per_step[Arm.CONTROL] - 1
    assert slower < -0.02
    assert judged.row("decode", context_tokens=96).reason.endswith(f": steps/s +0.0%, tokens/step {slower:+.1%}")
    steps = judged.row("decode steps", context_tokens=96)
    assert steps.control == steps.candidate == "200.0"


def test_better_acceptance_is_a_note(tmp_path: Path) -> None:
    judged = Session(tmp_path, candidate=stack("better-drafts", {"wrong_drafts": 0.05})).judge()
    assert {r.word for r in judged.rows("accepted / drafted, decode")} == {Word.NOTE}
    assert judged.verdict.verdict is Word.PASS


# --- the answers differ ------------------------------------------------------------------------------


def test_a_changed_successor_fails_at_the_token_where_arithmetic_puts_it(tmp_path: Path) -> None:
    session = Session(tmp_path, candidate=stack("changed", {"changed_successor": True}))
    judged = session.judge()
    assert (judged.verdict.verdict, judged.verdict.exit_code) == (Word.FAIL, ExitCode.FAIL)

    first = prompt(session, Step.IDENTITY, 0, 0, 0, 16)
    outputs = [session.recipe(arm).rule.expected(first, 40).output_ids for arm in Arm]
    index = next(i for i, (a, b) in enumerate(zip(*outputs, strict=True)) if a != b)
    row = judged.row("identity, candidate vs control")
    assert row.word is Word.FAIL
    assert f"prompt 0, token {index}: {outputs[0][index]} vs {outputs[1][index]} (gap 11.000 nat" in row.reason
    assert row.candidate == "with itself: identical; vs control: diverged"
    # Each arm answers as its own model must, and that is no fault of either.
    assert judged.row("known answers").word is Word.PASS
    assert judged.words()[Word.FAIL] == {"identity, candidate vs control", "identity, measured outputs"}


# --- launches that fail ------------------------------------------------------------------------------


def test_a_candidate_that_dies_while_the_control_serves_is_a_fail(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(stage="health").judge()
    row = judged.row("served to the end")
    assert (row.word, row.control, row.candidate) == (Word.FAIL, "1 of 1", "0 of 1")
    assert "failed at health: the server ended by itself" in row.reason
    assert judged.verdict.exit_code == ExitCode.FAIL
    assert judged.words()[Word.FAIL] == {"served to the end"}


def test_a_candidate_that_dies_in_mid_course_is_a_fail(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(stage="after ready", ends_after=3).judge()
    assert judged.row("served to the end").word is Word.FAIL
    assert judged.words()[Word.FAIL] == {"served to the end"}
    assert judged.row("identity, candidate vs control").word is Word.NOT_TESTED


def test_a_control_that_fails_is_a_setup_failure(tmp_path: Path) -> None:
    judged = Session(tmp_path).control(stage="health").judge()
    assert judged.row("served to the end").word is Word.SETUP_FAILURE
    assert (judged.verdict.verdict, judged.verdict.exit_code) == (Word.SETUP_FAILURE, ExitCode.SETUP_FAILURE)


def test_both_arms_dead_is_a_setup_failure(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(stage="health").judge()
    assert judged.row("served to the end").word is Word.SETUP_FAILURE
    assert judged.verdict.exit_code == ExitCode.SETUP_FAILURE


def test_a_warm_launch_without_the_cache_of_its_cold_one_is_not_tested(tmp_path: Path) -> None:
    session = Session(tmp_path, WARM_TOO).candidate(where=COLD, stage="health")
    own_check = ("test_startup.py::test_served", None, "no warm cache")
    judged = session.candidate(where=WARM, stage="caches", failed_checks=(own_check,)).judge()
    warm = judged.row("served to the end", cache="warm")
    assert warm.word is Word.NOT_TESTED
    assert "no warm cache" in warm.reason
    assert judged.row("served to the end", cache="cold").word is Word.FAIL
    # Nothing else holds the missing launch against the candidate.
    assert judged.words()[Word.FAIL] == {"served to the end"}
    passed = {r.name for r in judged.verdict.rows if r.cache == "warm" and r.word is Word.PASS}
    assert passed == {"cache state"}, "the control's"


@pytest.mark.parametrize("where", [COLD, WARM])
def test_a_launch_that_the_host_could_not_prepare_is_a_setup_failure(tmp_path: Path, where: dict[str, object]) -> None:
    # A full disk, say: no cold launch is the reason, and it must not end as a pass with nothing measured.
    judged = Session(tmp_path, WARM_TOO).candidate(where=where, stage="caches").judge()
    assert judged.words()[Word.SETUP_FAILURE] == {"served to the end"}
    assert judged.verdict.exit_code == ExitCode.SETUP_FAILURE


def test_a_container_engine_that_goes_away_is_held_against_no_arm(tmp_path: Path) -> None:
    # It takes the server with it: requests end in the middle, and a check of the suites fails.
    cut: dict[str, Any] = {"short": ("decode/96/0",), "http_500": ("decode/96/1",), "ends_after": 10}
    check = ("test_decode.py::test_decode", 96, "not served in full")
    judged = Session(tmp_path).candidate(stage="engine", failed_checks=(check,), **cut).judge()
    assert judged.row("served to the end").word is Word.SETUP_FAILURE
    assert judged.verdict.exit_code == ExitCode.SETUP_FAILURE
    assert Word.FAIL not in judged.words()


def test_one_dead_candidate_launch_of_several_pairs_is_a_fail(tmp_path: Path) -> None:
    overrides = WARM_TOO | {"plan.pairs": 2}
    judged = Session(tmp_path, overrides).candidate(where=WARM | {"pair": 1}, stage="after ready", ends_after=2).judge()
    row = judged.row("served to the end", cache="warm")
    assert (row.word, row.candidate) == (Word.FAIL, "1 of 2")


@pytest.mark.parametrize(("arm", "word"), [("candidate", Word.WARN), ("control", Word.NOTE), ("both", Word.NOTE)])
def test_a_server_that_had_to_be_killed_did_not_stop_when_asked(tmp_path: Path, arm: str, word: Word) -> None:
    judged = getattr(Session(tmp_path), arm)(survivors=2).judge()
    row = judged.row("served to the end")
    assert (row.word, row.control, row.candidate) == (word, "1 of 1", "1 of 1")
    assert "had to be killed at the end" in row.reason
    assert judged.verdict.exit_code == ExitCode.PASS


# --- sessions that did not end -----------------------------------------------------------------------


def test_a_missing_launch_voids_the_session(tmp_path: Path) -> None:
    judged = Session(tmp_path, WARM_TOO).candidate(where=WARM, begins=False).judge()
    row = judged.row("session complete")
    assert (row.word, row.control) == (Word.VOID, "3 of 4")
    assert (judged.verdict.verdict, judged.verdict.exit_code) == (Word.VOID, ExitCode.VOID)


@pytest.mark.parametrize("arm", Arm)
def test_an_interruption_in_the_last_launch_voids_the_session(tmp_path: Path, arm: Arm) -> None:
    # Its record has an end, and every other launch is complete: only the status tells.
    session = Session(tmp_path).interrupted("stopped by the user or the system")
    change = session.control if arm is Arm.CONTROL else session.candidate
    judged = change(interrupted=True, ends_after=4).judge()
    row = judged.row("session complete")
    assert row.word is Word.VOID
    assert "stopped by the user" in row.reason
    assert (judged.verdict.verdict, judged.verdict.exit_code) == (Word.VOID, ExitCode.VOID)
    assert Word.FAIL not in judged.words()


def test_an_interruption_between_launches_voids_the_session(tmp_path: Path) -> None:
    judged = Session(tmp_path).interrupted("stopped by the user or the system").judge()
    assert judged.row("session complete").word is Word.VOID
    assert judged.verdict.exit_code == ExitCode.VOID


def test_a_launch_that_never_ended_voids_the_session(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(ended=False, interrupted=True, ends_after=2).judge()
    assert judged.row("session complete").word is Word.VOID
    assert "the harness ended before they did" in judged.row("session complete").reason
    assert judged.verdict.exit_code == ExitCode.VOID


def test_a_failure_of_the_candidate_outweighs_an_interruption(tmp_path: Path) -> None:
    session = Session(tmp_path, WARM_TOO).interrupted("ctrl-c").candidate(where=COLD, stage="health")
    judged = session.candidate(where=WARM, begins=False).judge()
    assert judged.verdict.exit_code == ExitCode.FAIL


# --- the word of the whole ---------------------------------------------------------------------------


def row(word: Word, mode: str | None = "mtp1") -> Row:
    return Row(name=f"{word} row", mode=mode, word=word, reason="because")


ORDER = (Word.FAIL, Word.SETUP_FAILURE, Word.VOID, Word.INCONCLUSIVE, Word.PASS)


@pytest.mark.parametrize(("one", "other"), [*product(ORDER, ORDER)])
def test_the_gravest_word_decides_wherever_it_stands(one: Word, other: Word) -> None:
    gravest = min(one, other, key=ORDER.index)
    assert overall([row(Word.NOTE), row(one), row(Word.NOT_TESTED), row(other), row(Word.WARN)]) is gravest


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ((), Word.INCONCLUSIVE),
        ((Word.NOT_TESTED, Word.NOTE, Word.WARN), Word.INCONCLUSIVE),
        ((Word.NOT_TESTED, Word.IMPROVED), Word.PASS),
        ((Word.PASS, Word.WARN), Word.PASS),
        ((Word.IMPROVED, Word.INCONCLUSIVE), Word.INCONCLUSIVE),
    ],
)
def test_what_was_not_shown_is_no_pass(words: tuple[Word, ...], whole: Word) -> None:
    assert overall([row(w) for w in words]) is whole


def test_an_orderly_session_that_measured_nothing_is_inconclusive() -> None:
    assert overall([row(Word.NOT_TESTED), row(Word.PASS, mode=None)]) is Word.INCONCLUSIVE


def test_a_void_session_row_counts_although_it_belongs_to_no_mode() -> None:
    assert overall([row(Word.PASS), row(Word.VOID, mode=None)]) is Word.VOID


def test_every_word_of_a_verdict_has_an_exit_code_of_its_own() -> None:
    assert [VERDICT_EXIT[w] for w in ORDER] == [1, 3, 4, 10, 0]
