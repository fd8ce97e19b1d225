"""Under MTP tokens per second are engine speed times acceptance: which of the two has changed?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.forge.recipe import Recipe
from harness.words import ExitCode, Word

from .bundles import Judged, Session, stack

PROMPTS: dict[str, object] = {"course.identity_prompts": 8, "plan.caches": ["warm"]}
FOUR: dict[str, object] = {"plan.pairs": 4, "plan.caches": ["warm"]}
IDENTITY, DECODE = "accepted / drafted, identity prompts", "accepted / drafted, decode"


def worse_drafts(root: Path, overrides: dict[str, object]) -> Judged:
    return Session(root, overrides, candidate=stack("worse-drafts", {"wrong_drafts": 0.6})).judge()


def test_a_worse_drafter_is_named_when_every_output_is_the_same(tmp_path: Path) -> None:
    judged = worse_drafts(tmp_path, PROMPTS)
    row = judged.row(IDENTITY, cache="warm")
    assert row.word is Word.WARN
    assert row.reason.startswith("the drafts are worse, not the engine's speed: acceptance -")
    assert row.reason.endswith("8 prompts resampled; outputs are identical, so this is drafter drift")
    assert judged.verdict.exit_code is not ExitCode.FAIL


def test_outputs_that_differ_are_no_mere_drift(tmp_path: Path) -> None:
    session = Session(tmp_path, PROMPTS, candidate=stack("worse-drafts", {"wrong_drafts": 0.6}))
    judged = session.candidate(diverge={"identity/0/0": 3}).judge()
    row = judged.row(IDENTITY, cache="warm")
    assert row.word is Word.WARN
    assert "drift" not in row.reason


def test_a_better_drafter_is_no_warning(tmp_path: Path) -> None:
    judged = Session(tmp_path, PROMPTS, candidate=stack("better-drafts", {"wrong_drafts": 0.1})).judge()
    row = judged.row(IDENTITY, cache="warm")
    assert (row.word, row.reason[:21]) == (Word.NOTE, "the drafts are better")


def test_drafts_that_are_worse_for_some_prompts_and_better_for_others_are_no_warning(tmp_path: Path) -> None:
    drafter = Recipe(vocab=24, seed=7, wrong_drafts=0.3)  # wrong as often, after other tokens
    row = Session(tmp_path, PROMPTS).candidate(drafter=drafter).judge().row(IDENTITY, cache="warm")
    assert (row.word, row.reason[:47]) == (Word.NOTE, "the drafts differ, and not clearly for the wors")
    low, high = re.findall(r"([+-][0-9.]+)%", row.reason.partition("interval ")[2])
    assert float(low) < 0 < float(high)


def test_few_prompts_are_compared_and_not_tested(tmp_path: Path) -> None:
    row = worse_drafts(tmp_path, FOUR).row(DECODE, cache="warm", context_tokens=96)
    assert row.word is Word.WARN
    assert "(too few prompts for a test)" in row.reason


def test_steps_are_judged_and_tokens_show_both_parts(tmp_path: Path) -> None:
    """Worse drafts on a fast engine: tokens/s fall, steps/s say that the engine has not."""
    judged = worse_drafts(tmp_path, FOUR)
    steps = judged.row("decode steps", cache="warm", context_tokens=96)
    tokens = judged.row("decode", cache="warm", context_tokens=96)
    per_step = judged.row("tokens per step", cache="warm", context_tokens=96)
    assert steps.word is Word.PASS
    assert tokens.word is Word.NOT_TESTED
    assert tokens.tested is not None
    assert per_step.tested is not None
    assert steps.tested is not None
    assert tokens.tested.change_pct < -2
    parts = [1 + t.change_pct / 100 for t in (steps.tested, per_step.tested)]
    assert parts[0] * parts[1] == pytest.approx(1 + tokens.tested.change_pct / 100, abs=0.002)
    assert per_step.word is Word.NOTE
    assert per_step.reason.startswith("exploratory: worse")
    assert f"tokens/step {per_step.tested.change_pct:+.1f}% (" in tokens.reason


def test_a_slow_engine_is_a_regression_although_drafts_were_lucky(tmp_path: Path) -> None:
    session = Session(tmp_path, FOUR, candidate=stack("lucky", {"wrong_drafts": 0.1})).candidate(speed=0.95)
    judged = session.judge()
    tokens = judged.row("decode", cache="warm", context_tokens=96).tested
    assert tokens is not None
    assert tokens.change_pct > 0, "tokens/s alone would call it an improvement"
    assert judged.row("decode steps", cache="warm", context_tokens=96).word is Word.FAIL


def test_counts_of_a_request_need_an_event_per_step(tmp_path: Path) -> None:
    from harness.judge.case import read_case
    from harness.judge.rates import counts_by_prompt
    from harness.words import Step

    launch = next(iter(read_case(Session(tmp_path).build()).launches.values()))
    windows = launch.windows_of(Step.IDENTITY)
    counts = counts_by_prompt(windows)
    assert len(counts) == 3
    assert sum(steps for _, steps in counts.values()) == sum(w.counted("drafts") or 0 for w in windows)
    first = windows[0].requests[0]
    merged = first.model_copy(
        update={
            "event_ns": first.event_ns[:-2] + first.event_ns[-1:],
            "event_tokens": (*first.event_tokens[:-2], sum(first.event_tokens[-2:])),
        }
    )
    assert counts_by_prompt([replace(windows[0], requests=(merged, *windows[0].requests[1:]))]) == {}
