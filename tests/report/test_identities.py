"""The first difference of outputs: token, candidates and logprobs of both sides, as they stand in the bundle."""

from __future__ import annotations

from pathlib import Path

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.report.html import page
from harness.report.identities import Parting, partings
from harness.words import Identity
from tests.judge.bundles import Session


def of(case: Case, where: str) -> Parting:
    [found] = [p for p in partings(case) if p.where == where]
    return found


def test_equal_outputs_have_none_and_the_page_says_so(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).build())
    assert partings(case) == []
    assert "No two outputs that were compared differ." in page(case, judge_case(case))


def test_where_nothing_was_compared_no_equality_is_claimed(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path, forged=False).both(course=()).build())
    text = page(case, judge_case(case))
    assert "the identity step did not run" in text
    assert "No two outputs that were compared differ." not in text


def test_the_first_differing_token_is_shown_with_what_both_arms_thought_of_it(tmp_path: Path) -> None:
    diverges = Session(tmp_path).candidate(diverge={"identity/0/0": 5, "identity/0/1": 5})
    found = of(case := read_case(diverges.build()), "identity prompts")
    assert (found.state, found.prompt, found.token_index) == (Identity.DIVERGED, 0, 5)
    control, candidate = found.sides
    assert (control.arm, candidate.arm) == ("control", "candidate")
    assert control.token != candidate.token
    assert control.before == candidate.before
    assert len(control.before) == 5
    assert control.best is not None
    assert len(control.best) == 2
    assert "launches/002-candidate" in candidate.source or "launches/001-candidate" in candidate.source
    text = page(case, judge_case(case))
    assert f"prompt 0, token {found.token_index}" in text
    assert f"<strong>{candidate.token}</strong>" in text


def test_an_arm_that_parts_from_itself_is_shown_as_that(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).control(diverge={"identity/0/1": 3}).build())
    found = of(case, "identity prompts, control with itself")
    assert [s.arm for s in found.sides] == ["control", "control"]
    assert found.token_index == 3


def test_measured_outputs_have_no_logprobs_and_say_so(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).candidate(diverge={"decode/48/0": 2}).build())
    found = of(case, "measured outputs 48")
    assert [s.best for s in found.sides] == [None, None]
    assert "not taken" in page(case, judge_case(case))
