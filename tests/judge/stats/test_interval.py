"""Pooled noise, the interval, and what it could have seen: against tables, scipy.stats, and counting."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.judge.stats import interval
from harness.judge.stats.interval import Answer
from harness.judge.stats.ratios import log_ratios, margin
from harness.judge.stats.sign_flip import sign_flip_p
from harness.judge.stats.spread import MOST_HISTORY, pool

differences = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=8)


def one(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([value])


# --- ratios ------------------------------------------------------------------------------------------


def test_better_is_plus_whatever_the_metric() -> None:
    assert log_ratios([100.0], [110.0], more_is_better=True)[0] == pytest.approx(math.log(1.1))
    assert log_ratios([10.0], [11.0], more_is_better=False)[0] == pytest.approx(-math.log(1.1))


@pytest.mark.parametrize(("control", "candidate"), [([1.0], [0.0]), ([-1.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_no_ratio_of_what_is_not_above_zero_or_has_no_partner(control: list[float], candidate: list[float]) -> None:
    with pytest.raises(ValueError, match=r"above zero|figures of the control"):
        log_ratios(control, candidate, more_is_better=True)


# --- pooled noise ------------------------------------------------------------------------------------


def test_noise_is_pooled_by_degrees_of_freedom() -> None:
    found = pool(one(0.015), 4, one(0.01), 20)
    assert found.kept[0]
    assert found.df[0] == 23
    assert found.sd[0] == pytest.approx(math.sqrt((20 * 0.01**2 + 3 * 0.015**2) / 23))


def test_history_counts_up_to_a_limit_and_none_is_none() -> None:
    assert pool(one(0.01), 4, one(0.01), 500).df[0] == MOST_HISTORY + 3
    for past, df in ((None, 0.0), (one(0.01), 0.0)):
        found = pool(one(0.02), 4, past, df)
        assert (found.sd[0], found.df[0], found.kept[0]) == (0.02, 3, False)


def test_history_is_dropped_where_the_noise_has_grown_beyond_chance() -> None:
    limit = math.sqrt(stats.chi2.ppf(0.99, 3) / 3)  # 1.94 times the old noise, for four pairs
    assert pool(one(0.01 * limit * 0.999), 4, one(0.01), 20).kept[0]
    dropped = pool(one(0.01 * limit * 1.001), 4, one(0.01), 20)
    assert (dropped.kept[0], dropped.df[0]) == (False, 3)
    assert dropped.sd[0] == pytest.approx(0.01 * limit * 1.001)
    assert pool(one(0.0001), 4, one(0.01), 20).kept[0], "quiet by luck is no reason to trust four pairs alone"


@settings(max_examples=50)
@given(differences, st.floats(0.001, 0.1), st.floats(1, 60))
def test_a_pooled_spread_lies_between_its_two_sources(d: list[float], past: float, df: float) -> None:
    own = float(np.std(d, ddof=1))
    found = pool(one(own), len(d), one(past), df)
    low, high = sorted((own, past))
    assert low - 1e-12 <= found.sd[0] <= high + 1e-12
    assert found.kept[0] or found.sd[0] == own


# --- the interval ------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(differences, st.sampled_from([0.05, 0.03]))
def test_the_interval_is_scipys(d: list[float], error: float) -> None:
    sd, df = one(float(np.std(d, ddof=1))), one(len(d) - 1.0)
    half = float(interval.half_width(sd, df, len(d), error)[0])
    expected = stats.t.ppf(1 - error, len(d) - 1) * stats.sem(d)
    assert half == pytest.approx(float(expected), abs=1e-12)


def test_answers_are_those_of_the_design() -> None:
    delta = margin(3)
    cases = {
        (-0.05, 0.01): Answer.REGRESSED,
        (-0.035, 0.01): Answer.INCONCLUSIVE,
        (-0.015, 0.01): Answer.SLOWER,
        (-0.005, 0.01): Answer.PASS,
        (0.02, 0.02): Answer.PASS,
        (0.05, 0.01): Answer.IMPROVED,
        (0.0, 0.04): Answer.INCONCLUSIVE,
        (0.0, 0.0): Answer.PASS,
    }
    mean, half = (np.array(x) for x in zip(*cases, strict=True))
    assert [Answer(x) for x in interval.answers(mean, half, delta)] == list(cases.values())


@settings(max_examples=50)
@given(st.floats(-0.1, 0.1), st.floats(0.001, 0.1), st.integers(2, 8), st.sampled_from([0.05, 0.03]))
def test_p_is_below_the_error_just_where_the_interval_is_below_the_bound(
    mean: float, sd: float, pairs: int, error: float
) -> None:
    bound, df = -margin(3), pairs - 1.0
    high = mean + float(interval.half_width(one(sd), one(df), pairs, error)[0])
    if abs(high - bound) > 1e-9:
        assert (interval.p_below(mean, sd, df, pairs, bound) < error) == (high < bound)


def test_p_without_any_spread_is_certain() -> None:
    assert interval.p_below(-0.1, 0.0, 3, 4, -0.03) == 0.0
    assert interval.p_below(-0.03, 0.0, 3, 4, -0.03) == 1.0
    assert interval.p_different(0.0, 0.0, 3, 4) == 1.0
    assert interval.p_different(0.01, 0.0, 3, 4) == 0.0


# --- what could have been seen -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "df", "expected"),
    [(3, 2, 4.6), (4, 3, 3.0), (5, 4, 2.4), (8, 7, 1.6), (3, 22, 2.38), (4, 23, 2.06), (5, 24, 1.84)],
)
def test_the_detectable_effect_is_the_one_of_the_tables(pairs: int, df: int, expected: float) -> None:
    """notes/anchors.md 2.4: two-sided 5 %, launches of 1 % noise, without and with 20 degrees of history."""
    assert interval.detectable(math.sqrt(2), df, pairs, 0.025) == pytest.approx(expected, abs=0.05)


def test_the_detectable_effect_is_seen_in_four_sessions_of_five() -> None:
    effect = interval.detectable(0.01, 3, 4, 0.05)
    d = np.random.default_rng(7).normal(effect, 0.01, (40_000, 4))
    low = d.mean(axis=1) - interval.half_width(np.std(d, axis=1, ddof=1), np.full(40_000, 3.0), 4, 0.05)
    assert float((low > 0).mean()) == pytest.approx(0.8, abs=0.01)


def test_pairs_that_are_needed_are_the_first_that_do() -> None:
    needed = interval.pairs_needed(0.03, 0.0, 0.01, 0.05)
    assert needed is not None

    def half(n: int) -> float:
        return float(stats.t.ppf(0.95, n - 1)) * 0.03 / math.sqrt(n)

    assert half(needed) < 0.01 <= half(needed - 2)
    assert interval.pairs_needed(0.03, 0.0, 0.0, 0.05) is None
    with_history = interval.pairs_needed(0.02, 20.0, 0.02, 0.05)
    without = interval.pairs_needed(0.02, 0.0, 0.02, 0.05)
    assert with_history is not None
    assert without is not None
    assert with_history < without


# --- sign flips --------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=7))
def test_sign_flips_are_counted_one_by_one(d: list[int]) -> None:
    flips = [sum(s * x for s, x in zip(signs, d, strict=True)) for signs in itertools.product((1, -1), repeat=len(d))]
    assert sign_flip_p(d) == pytest.approx(sum(x <= sum(d) for x in flips) / len(flips))


def test_the_least_p_is_one_flip_of_all() -> None:
    assert sign_flip_p([-1.0, -2.0, -1.5, -3.0]) == 1 / 16
    assert sign_flip_p([-0.01] * 4) == 1 / 16, "rounding makes no second one"
    assert sign_flip_p([0.0] * 17) is None
    assert sign_flip_p([]) is None
