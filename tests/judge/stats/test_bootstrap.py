"""Tokens per step of two arms over the same prompts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.judge.stats.bootstrap import FEWEST, Counts, acceptance


def prompts(rate: float, *, scatter: float = 0.1, n: int = 16, seed: int = 3) -> dict[str, Counts]:
    """128 tokens each, the acceptance of each prompt about a rate; the same seed gives the same prompts."""
    rates = np.clip(rate + np.random.default_rng(seed).normal(0, scatter, n), 0.05, 0.95)
    return {f"p{i}": (128, round(128 / (1 + r))) for i, r in enumerate(rates)}


def test_equal_counts_are_no_change() -> None:
    found = acceptance(prompts(0.7), prompts(0.7))
    assert found is not None
    assert (found.change, found.low, found.high, found.prompts) == (0.0, 0.0, 0.0, 16)


def test_a_lower_rate_over_the_same_prompts_is_seen_although_prompts_scatter_by_more() -> None:
    found = acceptance(prompts(0.7), prompts(0.65))
    assert found is not None
    assert found.low <= found.change <= found.high < 0
    assert found.change == pytest.approx(math.log(1.65 / 1.70), abs=0.01)


def test_one_odd_prompt_of_many_is_no_loss() -> None:
    candidate = prompts(0.7)
    tokens, steps = candidate["p3"]
    found = acceptance(prompts(0.7), candidate | {"p3": (tokens, steps + 6)})
    assert found is not None
    assert found.change < 0
    assert found.high == pytest.approx(0.0, abs=1e-9)


def test_only_prompts_of_both_arms_count_and_few_are_not_tested() -> None:
    control = prompts(0.7, n=FEWEST)
    assert acceptance(control, dict(list(control.items())[1:])) is None
    assert acceptance(control, control | {"other": (128, 20)}) is not None
    assert acceptance(control, control | {"p0": (128, 0)}) is None


def test_the_same_counts_give_the_same_interval() -> None:
    assert acceptance(prompts(0.7), prompts(0.6)) == acceptance(prompts(0.7), prompts(0.6))


def test_false_alarms_are_as_rare_as_promised() -> None:
    alarms = 0
    rng = np.random.default_rng(11)
    for _ in range(200):
        pairs = [(int(128 / (1 + a)), int(128 / (1 + b))) for a, b in rng.uniform(0.5, 0.9, (16, 2))]
        control = {f"p{i}": (128, a) for i, (a, _) in enumerate(pairs)}
        candidate = {f"p{i}": (128, b) for i, (_, b) in enumerate(pairs)}
        found = acceptance(control, candidate)
        assert found is not None
        alarms += found.high < 0
    assert alarms / 200 <= 0.10
