from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.forge.arithmetic import Expected, Rule

CHAIN = (1, 2, 3, 4, 5, 6, 7, 0)
"""0 -> 1 -> ... -> 7 -> 0."""


def chain(*wrong: int) -> Rule:
    return Rule(CHAIN, frozenset(wrong))


# --- by hand -------------------------------------------------------------------------------------------


def test_the_output_follows_the_map_from_the_last_prompt_token() -> None:
    assert chain().expected((5, 2), 7).output_ids == (3, 4, 5, 6, 7, 0, 1)


def test_only_the_last_prompt_token_counts() -> None:
    assert chain(4).expected((7, 7, 2), 6, draft_tokens=1) == chain(4).expected((0, 2), 6, draft_tokens=1)


def test_without_mtp_every_token_after_the_first_is_a_step() -> None:
    assert chain(1, 2, 3).expected((0, 0), 5) == Expected((1, 2, 3, 4, 5), drafts=0, accepted=0)
    assert chain().expected((0, 0), 5).steps == 4


def test_right_drafts_deliver_two_tokens_a_step() -> None:
    # prefill 1 | draft 2, bonus 3 | draft 4, bonus 5
    answer = chain().expected((0, 0), 5, draft_tokens=1)
    assert answer == Expected((1, 2, 3, 4, 5), drafts=2, accepted=2)
    assert (answer.steps, answer.trimmed) == (2, 0)


def test_the_last_accepted_draft_may_be_trimmed_and_counts_as_accepted() -> None:
    # prefill 1 | 2 3 | 4, and 5 is beyond max_tokens
    answer = chain().expected((0, 0), 4, draft_tokens=1)
    assert answer == Expected((1, 2, 3, 4), drafts=2, accepted=2)
    assert answer.trimmed == 1


def test_a_wrong_draft_delivers_one_token() -> None:
    # prefill 1 | after 1 wrong: 2 | after 2 right: 3 4 | after 4 wrong: 5
    answer = chain(1, 4).expected((0, 0), 5, draft_tokens=1)
    assert answer == Expected((1, 2, 3, 4, 5), drafts=3, accepted=1)
    assert (answer.steps, answer.trimmed) == (3, 0)


def test_a_wrong_token_that_a_bonus_token_steps_over_is_never_met() -> None:
    # Steps start after 1, 3 and 5; the wrong drafts after 2 and 4 are not asked for.
    assert chain(2, 4).expected((0, 0), 7, draft_tokens=1).accepted == 3


def test_one_output_token_comes_from_the_prefill_alone() -> None:
    answer = chain().expected((0, 3), 1, draft_tokens=1)
    assert (answer, answer.steps, answer.trimmed) == (Expected((4,), 0, 0), 0, 0)


@pytest.mark.parametrize(("wrong", "acceptance"), [((), 1.0), (range(8), 0.0), ((0, 1, 2, 3), 1 / 3)])
def test_the_long_run_acceptance_is_a_share_of_the_drafts(wrong: Sequence[int], acceptance: float) -> None:
    # 0 1 2 3 wrong: one turn of the cycle is four wrong steps and the two right ones after 4 and 6.
    assert chain(*wrong).long_run_acceptance() == pytest.approx(acceptance, abs=0.01)


@pytest.mark.parametrize(
    ("prompt", "tokens", "drafts", "told"),
    [
        ((0,), 4, 1, "a prompt needs at least 2 tokens, got 1"),
        ((), 4, 0, "a prompt needs at least 2 tokens, got 0"),
        ((0, 0), 0, 1, "output_tokens must be at least 1, got 0"),
        ((0, 0), 4, 2, "one MTP layer: draft_tokens is 0 or 1, got 2"),
        ((0, 0), 4, -1, "one MTP layer: draft_tokens is 0 or 1, got -1"),
    ],
)
def test_a_request_without_a_defined_answer_is_refused(
    prompt: tuple[int, ...], tokens: int, drafts: int, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        chain().expected(prompt, tokens, draft_tokens=drafts)


# --- against an engine written the other way round ---------------------------------------------------


class Engine:
    """A speculating engine, step by step: it knows the model's two answers, and no formula."""

    def __init__(self, rule: Rule, prompt: Sequence[int]) -> None:
        self.rule = rule
        self.sequence = list(prompt)
        self.drafted: list[bool] = []

    def target(self, token: int) -> int:
        return self.rule.successor[token]

    def draft(self, token: int) -> int:
        right = self.target(token)
        return (right + 1) % len(self.rule.successor) if token in self.rule.wrong_drafts else right

    def step(self) -> None:
        """Verify one draft: the target sees the token and its draft, and answers after both."""
        proposal = self.draft(self.sequence[-1])
        verified = self.target(self.sequence[-1])
        self.drafted.append(proposal == verified)
        self.sequence.append(verified)
        if proposal == verified:
            self.sequence.append(self.target(proposal))

    def serve(self, output_tokens: int, prompt_tokens: int) -> Expected:
        self.sequence.append(self.target(self.sequence[-1]))
        while len(self.sequence) - prompt_tokens < output_tokens:
            self.step()
        output = self.sequence[prompt_tokens:][:output_tokens]
        return Expected(tuple(output), len(self.drafted), self.drafted.count(True))


@st.composite
def requests(draw: st.DrawFn) -> tuple[Rule, list[int], int]:
    vocab = draw(st.integers(2, 24))
    token = st.integers(0, vocab - 1)
    successor = draw(st.lists(token, min_size=vocab, max_size=vocab))
    rule = Rule(tuple(successor), draw(st.frozensets(token)))
    return rule, draw(st.lists(token, min_size=2, max_size=5)), draw(st.integers(1, 60))


@given(requests())
def test_an_engine_that_runs_step_by_step_gives_the_same_answer(request_: tuple[Rule, list[int], int]) -> None:
    rule, prompt, tokens = request_
    assert rule.expected(prompt, tokens, draft_tokens=1) == Engine(rule, prompt).serve(tokens, len(prompt))


@given(requests())
def test_mtp_never_changes_the_output(request_: tuple[Rule, list[int], int]) -> None:
    rule, prompt, tokens = request_
    with_mtp = rule.expected(prompt, tokens, draft_tokens=1)
    without = rule.expected(prompt, tokens, draft_tokens=0)
    assert with_mtp.output_ids == without.output_ids
    assert len(without.output_ids) == tokens
    assert (without.drafts, without.accepted, without.trimmed) == (0, 0, 0)


@given(requests())
def test_the_counters_add_up_to_the_delivered_tokens(request_: tuple[Rule, list[int], int]) -> None:
    rule, prompt, tokens = request_
    answer = rule.expected(prompt, tokens, draft_tokens=1)
    assert 1 + answer.drafts + answer.accepted - answer.trimmed == tokens
    assert answer.trimmed in (0, 1)
    assert 0 <= answer.accepted <= answer.drafts <= tokens - 1


@given(requests(), st.integers(1, 60))
def test_a_longer_answer_begins_with_the_shorter_one(request_: tuple[Rule, list[int], int], more: int) -> None:
    rule, prompt, tokens = request_
    short = rule.expected(prompt, tokens, draft_tokens=1)
    long = rule.expected(prompt, tokens + more, draft_tokens=1)
    assert long.output_ids[:tokens] == short.output_ids
    assert long.drafts >= short.drafts
    assert long.accepted >= short.accepted
