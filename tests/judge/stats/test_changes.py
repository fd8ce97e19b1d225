"""Change points of nights: what lasts is found the night after, what does not is left alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from harness.judge.stats import changes
from harness.judge.stats.changes import FEWEST_NIGHTS, Night, change, night_noise, penalty

LAUNCH = 0.01
"""Noise of a launch; a pair's ratio has the square root of two of it."""
PAIR = math.sqrt(2) * LAUNCH
STEP = math.log(0.97)


def nights(means: Sequence[float], *, sd: float | None = PAIR, pairs: int = 4) -> list[Night]:
    return [Night(mean, pairs, sd) for mean in means]


def flat(count: int, scatter: float = 0.003) -> list[float]:
    """Nights about zero, in a fixed pattern without any trend."""
    return [scatter * x for x in itertools.islice(itertools.cycle((1.0, -0.6, 0.3, -1.0, 0.5, -0.2)), count)]


def drawn(rng: np.random.Generator, count: int, pairs: int = 4, launch: float = LAUNCH) -> list[Night]:
    d = rng.normal(0.0, math.sqrt(2) * launch, (count, pairs))
    return [Night(float(x.mean()), pairs, float(x.std(ddof=1))) for x in d]


def shifted(series: Sequence[Night], at: int, by: float) -> list[Night]:
    return [Night(n.mean + by, n.pairs, n.own_sd) if i >= at else n for i, n in enumerate(series)]


def alarms(series: Sequence[Night], together: int = 1, smallest: float = 0.01) -> list[int]:
    """Nights, counted from 1, on which a lasting change is reported."""
    found = []
    for count in range(FEWEST_NIGHTS, len(series) + 1):
        c = change(series[:count], series=together, smallest=smallest)
        if c.since is not None and c.lasting:
            found.append(count)
    return found


# --- one step ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [1, 20], ids=["one series", "twenty series"])
def test_a_step_of_three_percent_at_night_8_is_found_at_night_9_and_dated_to_night_8(together: int) -> None:
    series = shifted(nights(flat(14)), 7, STEP)
    assert alarms(series, together) == [9, 10, 11, 12, 13, 14]
    for count in range(9, 15):
        found = change(series[:count], series=together, smallest=0.01)
        assert found.since == 7
        assert math.expm1(found.shift) == pytest.approx(-0.03, abs=0.004)


def test_one_night_alone_is_an_outlier_and_no_change_then_or_later() -> None:
    series = nights(flat(14))
    series[7] = Night(-0.07, 4, PAIR)
    assert alarms(series) == []
    tonight = change(series[:8], series=1, smallest=0.01)
    assert tonight.apart < -changes.STANDS_APART, "it is told of, as a night that stands apart"
    assert change(series, series=1, smallest=0.01).spikes == (7,)


@pytest.mark.parametrize("place", [0, 1, 5, 12, 13])
def test_an_outlier_anywhere_is_none_either(place: int) -> None:
    series = nights(flat(14))
    series[place] = Night(0.08, 4, PAIR)
    assert alarms(series) == []


def test_two_outliers_with_a_good_night_between_them_are_no_level() -> None:
    series = nights(flat(16))
    for place in (8, 10):
        series[place] = Night(-0.07, 4, PAIR)
    assert alarms(series) == []


def test_what_went_back_is_no_change_any_more() -> None:
    series = shifted(shifted(nights(flat(16)), 6, STEP), 11, -STEP)
    assert alarms(series) == [8, 9, 10, 11]
    found = change(series, series=1, smallest=0.01)
    assert (found.since, len(found.starts)) == (None, 2)


@pytest.mark.parametrize("left", [0.015, -0.015], ids=["a little above", "a little below"])
def test_an_improvement_that_was_lost_is_no_change_where_noise_exceeds_the_smallest_one(left: float) -> None:
    series = nights(flat(15, 0.01), sd=0.04)
    gained = shifted(shifted(series, 5, 0.12), 10, left - 0.12)
    found = change(gained, series=1, smallest=0.01)
    assert (found.since, found.starts) == (None, (5, 10))
    assert abs(found.shift) > 0.01, "noise left the level this far from the first"
    assert found.step < -0.01, "what was lost is told of"


def test_an_improvement_is_a_change_upwards() -> None:
    found = change(shifted(nights(flat(12)), 6, -STEP), series=1, smallest=0.01)
    assert found.since == 6
    assert found.lasting
    assert found.shift > 0.02


def test_an_improvement_that_was_lost_is_a_step_and_no_shift() -> None:
    found = change(shifted(shifted(nights(flat(16)), 5, -STEP), 12, STEP), series=1, smallest=0.01)
    assert found.since is None
    assert found.step < -0.02


def test_a_shift_below_the_smallest_is_none_however_sure() -> None:
    series = shifted(nights(flat(20, scatter=0.0005), sd=0.001), 10, math.log(0.995))
    assert change(series, series=1, smallest=0.01).since is None
    assert change(series, series=1, smallest=0.001).since == 10


# --- drift, gaps, noise ------------------------------------------------------------------------------


def test_a_slow_drift_is_found_before_it_has_cost_four_percent() -> None:
    """0.1 % a night: no night and no A/B would ever say so."""
    series = [Night(x - 0.001 * i, 4, PAIR / 2) for i, x in enumerate(flat(40, scatter=0.0015))]
    found = alarms(series)
    assert found
    assert 10 < found[0] <= 35
    assert found == list(range(found[0], 41)), "and once found it stays"


def test_missing_nights_make_the_series_shorter_and_nothing_else() -> None:
    whole = shifted(nights(flat(14)), 7, STEP)
    gaps = [n for i, n in enumerate(whole) if i not in (2, 3, 8)]
    assert alarms(gaps) == [7, 8, 9, 10, 11], "the second night after the step that was measured at all"


def test_sixty_nights_of_one_percent_noise_give_no_alarm_in_95_of_100_series() -> None:
    """Every night is looked at: an alarm on any of them counts."""
    rng = np.random.default_rng(20261130)
    series = [drawn(rng, 60) for _ in range(40)]
    assert sum(bool(alarms(s)) for s in series) <= 2


def test_noise_of_the_nights_beyond_that_of_the_pairs_counts() -> None:
    """What the pairs of one session share is not seen by their own scatter."""
    means = flat(24, scatter=0.03)
    assert float(night_noise(nights(means, sd=0.001))[0]) > 0.02
    assert alarms(nights(means, sd=0.001)) == []


def test_single_pairs_have_the_noise_of_the_nights_alone() -> None:
    series = nights(flat(14, scatter=0.004), sd=None, pairs=1)
    assert 0.002 < float(night_noise(series)[0]) < 0.01
    assert alarms(shifted(series, 7, 3 * STEP))[0] == 9


def test_nights_that_are_equal_to_the_last_digit_have_some_noise_all_the_same() -> None:
    assert float(night_noise(nights([0.0] * 6, sd=0.0))[0]) == changes.LEAST_NOISE
    assert alarms(nights([0.0] * 10, sd=0.0)) == []


def test_a_step_does_not_widen_the_noise_that_it_is_held_against() -> None:
    before = night_noise(nights(flat(14)))
    after = night_noise(shifted(nights(flat(14)), 7, 10 * STEP))
    assert float(after[0]) == pytest.approx(float(before[0]), rel=0.25)


# --- the method --------------------------------------------------------------------------------------


def best_split(scaled: Sequence[float], allowed: float) -> tuple[int, ...]:
    """Every segmentation with at least two nights each, tried out."""
    x = np.array(scaled)

    def cost(bounds: tuple[int, ...]) -> float:
        parts = [x[a:b] for a, b in itertools.pairwise((0, *bounds, len(x)))]
        return float(sum(((p - p.mean()) ** 2).sum() for p in parts)) + allowed * len(bounds)

    choices = [
        bounds
        for size in range(len(x) // 2)
        for bounds in itertools.combinations(range(2, len(x) - 1), size)
        if all(b - a >= 2 for a, b in itertools.pairwise((0, *bounds, len(x))))
    ]
    return min(choices, key=cost)


@pytest.mark.parametrize("seed", range(12))
def test_the_segments_are_the_best_ones_there_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scaled = rng.normal(0, 1, 11) + np.repeat(rng.normal(0, 4, 3), (4, 3, 4))
    assert tuple(changes._starts(scaled, 8.0)) == best_split(list(scaled), 8.0)  # noqa: SLF001


def test_more_nights_and_more_series_are_judged_more_strictly() -> None:
    assert penalty(60, 1) > penalty(10, 1)
    assert penalty(10, 20) - penalty(10, 1) == pytest.approx(2 * math.log(20))


def test_the_same_nights_give_the_same_answer() -> None:
    series = shifted(drawn(np.random.default_rng(1), 30), 14, STEP)
    assert change(series, series=3, smallest=0.01) == change(series, series=3, smallest=0.01)
