"""Are the outputs the same bytes? And where they are not: rounding, the candidate, or nobody can say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.identity import Difference, compare
from harness.records import OutputRecord
from harness.session.asking import output_sha256
from harness.words import Arm, ExitCode, Identity, Word

from .bundles import COURSE, WARM, WARM_TOO, Session, stack

PROMPTS, MEASURED = "identity, candidate vs control", "identity, measured outputs"
BETWEEN_STATES = "identity, between warm-up and cache states"
CHANGED = {"changed_successor": True}
SWAPPED = {"near_tie": True, "changed_successor": True}
"""Both give the special token another successor; the logprobs say what that is."""

Logprobs = dict[str, float | None]


def output(ids: list[int], logprobs: list[Logprobs] | None = None) -> OutputRecord:
    text = "".join(f"w{t}" for t in ids)
    return OutputRecord(
        request="0001",
        token_ids=tuple(ids),
        text=text,
        finish_reason="length",
        sha256=output_sha256(ids, text, "length"),
        top_logprobs=tuple(logprobs) if logprobs else None,
    )


def sure(*tokens: int) -> list[Logprobs]:
    """Logprobs of tokens that nothing comes near to."""
    return [{f"w{t}": -0.01, "w99": -9.0} for t in tokens]


# --- two sets of outputs -----------------------------------------------------------------------------


def test_equal_outputs_are_identical_and_counted() -> None:
    found = compare([output([1, 2]), output([3])], [output([1, 2]), output([3])], near_tie_nat=0.1)
    assert (found.state, found.compared, found.text()) == (
        Identity.IDENTICAL,
        2,
        "2 of 2 outputs are the same bytes",
    )


def test_a_difference_is_named_by_prompt_token_and_both_answers() -> None:
    one = [output([1, 2, 3]), output([4, 5, 6], sure(4, 5, 6))]
    other = [output([1, 2, 3]), output([4, 5, 7], sure(4, 5, 7))]
    found = compare(one, other, near_tie_nat=0.1)
    assert found.state is Identity.DIVERGED
    assert found.text() == (
        "1 of 2 outputs differ; first: prompt 1, token 2: 6 vs 7 (gap 8.990 nat, in the candidate 8.990 nat)"
    )


def test_an_output_that_only_ends_earlier_differs_where_it_ends() -> None:
    found = compare([output([1, 2, 3])], [output([1, 2])], near_tie_nat=0.1)
    [difference] = found.differing
    assert (found.state, difference.token_index) == (Identity.DIVERGED, 2)
    assert (difference.control_token, difference.candidate_token) == (3, None)


def test_equal_tokens_with_other_text_differ() -> None:
    changed = output([1, 2]).model_copy(update={"text": "w1 w2", "sha256": "f" * 64})
    assert compare([output([1, 2])], [changed], near_tie_nat=0.1).state is Identity.DIVERGED


@pytest.mark.parametrize("which", ["control", "candidate", "both"])
def test_empty_outputs_are_never_identical(which: str) -> None:
    empty, whole = output([]), output([1])
    assert empty.sha256 == ""
    control = [empty if which != "candidate" else whole]
    candidate = [empty if which != "control" else whole]
    found = compare(control, candidate, near_tie_nat=0.1)
    assert found.state is Identity.NOT_COMPARABLE
    assert "equal hashes of nothing prove nothing" in found.text()


@pytest.mark.parametrize(("control", "candidate"), [(0, 0), (1, 0), (0, 1), (2, 1)])
def test_another_number_of_outputs_is_not_comparable(control: int, candidate: int) -> None:
    found = compare([output([1])] * control, [output([1])] * candidate, near_tie_nat=0.1)
    assert found.state is Identity.NOT_COMPARABLE


TIE: Logprobs = {"w6": -0.69, "w7": -0.74}
"""6 before 7, by 0.05 nat."""
OTHER_TIE: Logprobs = {"w7": -0.68, "w6": -0.70}


@pytest.mark.parametrize(
    ("control", "candidate", "state"),
    [
        (TIE, OTHER_TIE, Identity.NEAR_TIE),
        ({"w6": -0.6, "w7": -0.7001}, OTHER_TIE, Identity.DIVERGED),  # just beyond 0.1 nat
        (TIE, {"w7": -0.01, "w6": -4.6}, Identity.DIVERGED),  # the candidate is sure of it: that is not rounding
        ({"w6": -0.01, "w7": -4.6}, OTHER_TIE, Identity.DIVERGED),  # the control was sure of the other one
        ({"w6": -0.69, "w8": -0.70}, OTHER_TIE, Identity.DIVERGED),  # never considered by the control
        (TIE, {"w7": -0.68, "w9": -0.70}, Identity.DIVERGED),
        ({"w6": -0.69, "w7": None}, OTHER_TIE, Identity.DIVERGED),  # a NaN
        ({"w6": -0.69}, OTHER_TIE, Identity.DIVERGED),
        (None, None, Identity.DIVERGED),
        (TIE, None, Identity.DIVERGED),
    ],
)
def test_a_near_tie_is_the_same_two_tokens_nearly_equal_in_both_arms(
    control: Logprobs | None, candidate: Logprobs | None, state: Identity
) -> None:
    ours = output([5, 6], None if control is None else [*sure(5), control])
    theirs = output([5, 7], None if candidate is None else [*sure(5), candidate])
    assert compare([ours], [theirs], near_tie_nat=0.1).state is state


@pytest.mark.parametrize(("gap", "near"), [(0.25, True), (0.2500001, False), (None, False)])
def test_a_gap_at_the_limit_is_a_near_tie(gap: float | None, near: bool) -> None:
    for ours, theirs in ((gap, 0.1), (0.1, gap)):
        assert Difference(0, 3, 1, 2, ours, theirs, same_two=True).near_tie(0.25) is near
    assert not Difference(0, 3, 1, 2, gap, gap, same_two=False).near_tie(0.25)


def test_one_real_difference_among_near_ties_is_a_difference() -> None:
    ours = [output([6], [TIE]), output([6], sure(6))]
    theirs = [output([7], [OTHER_TIE]), output([7], sure(7))]
    assert compare(ours, theirs, near_tie_nat=0.1).state is Identity.DIVERGED


def test_without_logprobs_the_text_says_so() -> None:
    assert compare([output([6])], [output([7])], near_tie_nat=0.1).text().endswith("6 vs 7 (logprobs not taken)")


ids = st.lists(st.integers(0, 3), min_size=1, max_size=6)


@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=5))
def test_identical_means_equal_ids_and_the_first_difference_is_the_first(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    found = compare([output(a) for a, _ in pairs], [output(b) for _, b in pairs], near_tie_nat=0.1)
    assert (found.state is Identity.IDENTICAL) == all(a == b for a, b in pairs)
    assert [d.index for d in found.differing] == [i for i, (a, b) in enumerate(pairs) if a != b]
    for difference in found.differing:
        a, b = pairs[difference.index]
        assert a[: difference.token_index] == b[: difference.token_index]
        assert a[difference.token_index :][:1] != b[difference.token_index :][:1]


# --- an arm with itself ------------------------------------------------------------------------------


def test_a_control_that_does_not_agree_with_itself_makes_the_arms_not_comparable(tmp_path: Path) -> None:
    judged = Session(tmp_path).control(diverge={"identity/0/1": 3}).judge()
    row = judged.row(PROMPTS)
    assert row.word is Word.NOT_TESTED
    assert row.reason.startswith("not comparable: the control does not agree with itself")
    assert "token 3" in row.reason
    assert row.control == "with itself: diverged"
    assert Word.FAIL not in judged.words()


def test_an_unstable_control_blames_no_measured_output_on_the_candidate(tmp_path: Path) -> None:
    # Its decode passes part from the candidate's too, for the same reason.
    judged = Session(tmp_path, forged=False).control(diverge={"identity/0/1": 3, "decode/96/0": 2}).judge()
    row = judged.row(MEASURED, context_tokens=96)
    assert row.word is Word.NOT_TESTED
    assert "the control does not agree with itself" in row.reason
    assert judged.row(MEASURED, context_tokens=48).word is Word.PASS
    assert judged.verdict.exit_code == ExitCode.PASS


def test_a_candidate_that_does_not_agree_with_itself_fails(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(diverge={"identity/0/1": 3}).judge()
    row = judged.row(PROMPTS)
    assert (row.word, judged.verdict.exit_code) == (Word.FAIL, ExitCode.FAIL)
    assert "the candidate does not agree with itself, the control does" in row.reason
    assert row.candidate == "with itself: diverged; vs control: diverged"


def test_a_near_tie_of_the_candidate_with_itself_hides_no_real_difference(tmp_path: Path) -> None:
    # Prompt 0 flips at a tie between the passes, which alone warns; prompt 1 parts from the control for good.
    session = Session(tmp_path, candidate=stack("changed", CHANGED), forged=False)
    judged = session.candidate(ties_itself="identity/0/1").judge()
    row = judged.row(PROMPTS)
    assert row.candidate == "with itself: diverged at a near tie; vs control: diverged"
    assert row.word is Word.FAIL


def test_every_pair_is_compared_and_not_only_the_first(tmp_path: Path) -> None:
    overrides: dict[str, object] = {"plan.caches": ["warm"], "plan.pairs": 2}
    session = Session(tmp_path, overrides, forged=False)
    judged = session.candidate(where=WARM | {"pair": 1}, diverge={"identity/0/0": 5, "identity/0/1": 5}).judge()
    row = judged.row(PROMPTS, cache="warm")
    assert row.word is Word.FAIL
    assert "token 5" in row.reason


# --- near ties ---------------------------------------------------------------------------------------


def test_a_near_tie_warns_in_every_row_that_meets_it(tmp_path: Path) -> None:
    session = Session(tmp_path, candidate=stack("tied", SWAPPED)).control(tie_nat=0.04)
    judged = session.candidate(tie_nat=0.05).judge()
    row = judged.row(PROMPTS)
    assert row.word is Word.WARN
    assert row.reason.startswith("diverged at a near tie: 3 of 3 outputs differ; first: prompt 0, token ")
    assert "(gap 0.040 nat, in the candidate 0.050 nat)" in row.reason
    # No logprobs are taken where time is measured: the identity prompts tell what a difference there is.
    for context in (48, 96):
        measured = judged.row(MEASURED, context_tokens=context)
        assert measured.word is Word.WARN
        assert measured.reason.endswith("the identity prompts part at near ties only")
    assert judged.verdict.exit_code == ExitCode.PASS


@pytest.mark.parametrize("nat", [0.2, 11.0])
def test_a_swapped_order_that_was_no_tie_fails(tmp_path: Path, nat: float) -> None:
    session = Session(tmp_path, candidate=stack("tied", SWAPPED)).control(tie_nat=nat)
    judged = session.candidate(tie_nat=0.05).judge()
    assert judged.row(PROMPTS).word is Word.FAIL
    assert judged.row(MEASURED, context_tokens=96).word is Word.FAIL


def test_a_tie_with_a_third_token_excuses_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path, candidate=stack("tied", SWAPPED))
    tied = session.recipe(Arm.CANDIDATE)
    assert tied.tie is not None
    other = next(t for t in range(24) if t not in (tied.tie[1], tied.other_successor))
    judged = session.control(tie_nat=0.04, runner_up=other).candidate(tie_nat=0.05).judge()
    assert judged.row(PROMPTS).word is Word.FAIL


def test_the_nearness_of_a_tie_is_the_profiles(tmp_path: Path) -> None:
    session = Session(tmp_path, {"gates.near_tie_nat": 0.3}, candidate=stack("tied", SWAPPED))
    assert session.both(tie_nat=0.2).judge().row(PROMPTS).word is Word.WARN


# --- evidence that is not there ----------------------------------------------------------------------


def test_without_the_identity_step_nothing_is_said(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(course=COURSE[:-1]).judge()
    assert (judged.row(PROMPTS).word, judged.row(PROMPTS).reason) == (Word.NOT_TESTED, "the identity step did not run")
    assert judged.verdict.exit_code == ExitCode.PASS


def test_a_difference_without_any_baseline_is_a_difference(tmp_path: Path) -> None:
    judged = Session(tmp_path, candidate=stack("changed", CHANGED)).both(course=COURSE[:-1]).judge()
    assert judged.row(MEASURED, context_tokens=96).word is Word.FAIL


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_a_launch_that_ended_before_its_identity_step_is_blamed_elsewhere(tmp_path: Path, arm: str) -> None:
    judged = getattr(Session(tmp_path), arm)(stage="after ready", ends_after=3).judge()
    row = judged.row(PROMPTS)
    assert (row.word, row.reason) == (Word.NOT_TESTED, f"no launch of the {arm} came as far as the identity step")


@pytest.mark.parametrize("arm", ["control", "candidate"])
@pytest.mark.parametrize("window", ["identity/0/0", "identity/0/1"])
def test_outputs_that_were_not_recorded_void_the_row(tmp_path: Path, arm: str, window: str) -> None:
    judged = getattr(Session(tmp_path), arm)(lost=(window,)).judge()
    row = judged.row(PROMPTS)
    assert row.word is Word.VOID
    assert "0 of the candidate" in row.reason or "0 outputs" in row.reason
    assert judged.verdict.exit_code == ExitCode.VOID, "our failing, not the candidate's"


@pytest.mark.parametrize("arm", ["control", "candidate", "both"])
def test_empty_outputs_void_the_row_also_where_both_arms_are_as_empty(tmp_path: Path, arm: str) -> None:
    session = Session(tmp_path, forged=False)
    judged = getattr(session, arm)(empty=("identity/0/0", "identity/0/1")).judge()
    row = judged.row(PROMPTS)
    assert row.word is Word.VOID
    assert "empty" in row.reason


def test_a_short_output_of_the_candidate_is_a_difference(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(short=("identity/0/0",)).judge()
    assert judged.row(PROMPTS).word is Word.FAIL


def test_a_short_output_of_the_control_is_held_against_nobody(tmp_path: Path) -> None:
    judged = Session(tmp_path).control(short=("identity/0/0", "identity/0/1")).judge()
    assert judged.row(PROMPTS).word is Word.NOT_TESTED
    assert judged.verdict.exit_code == ExitCode.VOID


# --- between states and modes ------------------------------------------------------------------------

STATES: dict[str, object] = {"plan.warmups": ["engine", "primed"], "plan.caches": ["warm"]}


def test_warm_up_may_not_change_the_answers(tmp_path: Path) -> None:
    primed = {"warmup": "primed"}
    changed = {"identity/0/0": 7, "identity/0/1": 7}
    session = Session(tmp_path, STATES, forged=False).candidate(where=primed, diverge=changed)
    judged = session.judge()
    row = judged.row(BETWEEN_STATES)
    assert (row.word, row.control, row.candidate) == (Word.FAIL, "identical", "diverged")
    assert "token 7" in row.reason


def test_a_control_whose_answers_depend_on_its_warm_up_excuses_the_candidate(tmp_path: Path) -> None:
    changed = {"identity/0/0": 7, "identity/0/1": 7}
    judged = Session(tmp_path, STATES, forged=False).both(where={"warmup": "primed"}, diverge=changed).judge()
    assert judged.row(BETWEEN_STATES).word is Word.NOTE
    assert Word.FAIL not in judged.words()


def test_equal_answers_in_all_states_pass(tmp_path: Path) -> None:
    assert Session(tmp_path, STATES).judge().row(BETWEEN_STATES, mode="mtp1").word is Word.PASS


def test_one_state_alone_makes_no_row(tmp_path: Path) -> None:
    assert not Session(tmp_path).judge().rows(BETWEEN_STATES)


@pytest.mark.parametrize("diverge", [None, {"identity/0/0": 4, "identity/0/1": 4}])
def test_mtp_on_against_off_is_only_ever_a_note(tmp_path: Path, diverge: dict[str, int] | None) -> None:
    session = Session(tmp_path, {"plan.modes": ["mtp0", "mtp1"]}, forged=False)
    judged = session.both(where={"mode": "mtp1"}, diverge=diverge).judge()
    row = judged.row("identity, mtp0 vs mtp1 (reported, not gated)")
    assert row.word is Word.NOTE
    assert row.candidate == ("identical" if diverge is None else "diverged")
    assert judged.verdict.exit_code == ExitCode.PASS


def test_warm_cells_are_compared_as_cold_ones_are(tmp_path: Path) -> None:
    judged = Session(tmp_path, WARM_TOO, forged=False).candidate(where=WARM, diverge={"decode/48/1": 9}).judge()
    assert judged.row(MEASURED, cache="cold", context_tokens=48).word is Word.PASS
    row = judged.row(MEASURED, cache="warm", context_tokens=48)
    assert row.word is Word.FAIL
    assert "1 of 5 outputs differ; first: prompt 4, token 9" in row.reason
