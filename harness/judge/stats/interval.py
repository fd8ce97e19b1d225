"""An interval against a margin: the answers, how small a change is seen, and how many pairs would do."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy import special

from harness.judge.stats.ratios import Floats

ALPHA = 0.05
"""One-sided error on each side of the interval when a session is looked at once."""
ALPHA_OF_TWO = 0.03
"""The same per look when an inconclusive session may be continued (after Pocock: notes/anchors.md 2.5)."""
POWER = 0.8
MOST_PAIRS = 200
"""No host is asked for more."""


class Answer(IntEnum):
    """What an interval says about a margin."""

    REGRESSED = 0
    INCONCLUSIVE = 1
    SLOWER = 2
    """Within the margin, and worse for sure."""
    PASS = 3
    IMPROVED = 4


def alpha(looks: int) -> float:
    """One-sided error per look."""
    return ALPHA if looks == 1 else ALPHA_OF_TWO


def half_width(sd: Floats, df: Floats, pairs: int, error: float) -> Floats:
    """Half of the interval of the mean that leaves `error` on each side."""
    few, place = np.unique(df, return_inverse=True)  # of many sessions: pooled ones and others, no more
    found: Floats = special.stdtrit(few, 1 - error)[place].reshape(np.shape(df)) * sd / math.sqrt(pairs)
    return found


def answers(mean: Floats, half: Floats, delta: float) -> NDArray[np.int8]:
    """The `Answer` of each interval mean +- half, better being plus (DESIGN 6)."""
    low, high = mean - half, mean + half
    within = np.where(high < 0, Answer.SLOWER, Answer.PASS)
    found = np.where(low > delta, Answer.IMPROVED, np.where(low > -delta, within, Answer.INCONCLUSIVE))
    return np.where(high < -delta, Answer.REGRESSED, found).astype(np.int8)


def p_below(mean: float, sd: float, df: float, pairs: int, bound: float) -> float:
    """One-sided p of "the true change is not below `bound`"; below 0.05 just where a 90 % interval is."""
    distance = mean - bound
    if sd == 0:
        return 0.0 if distance < 0 else 1.0
    return float(special.stdtr(df, distance / (sd / math.sqrt(pairs))))


def p_different(mean: float, sd: float, df: float, pairs: int) -> float:
    """Two-sided p of "there is no change"."""
    return min(1.0, 2 * p_below(-abs(mean), sd, df, pairs, 0.0))


def detectable(sd: float, df: float, pairs: int, error: float) -> float:
    """The smallest true log ratio whose interval excludes zero in 80 % of sessions: by the noncentral t."""
    critical = special.stdtrit(df, 1 - error)
    return float(special.nctdtrinc(df, 1 - POWER, critical)) * sd / math.sqrt(pairs)


def pairs_needed(sd: float, past_df: float, distance: float, error: float) -> int | None:
    """Smallest even number of pairs whose interval no longer reaches the margin; None above MOST_PAIRS.

    Args:
        sd: of one pair's log ratio.
        past_df: degrees of freedom of the history that the pairs are pooled with.
        distance: from the mean to the margin, both taken as seen.
        error: one-sided.
    """
    n = np.arange(4, MOST_PAIRS + 1, 2)
    reached = special.stdtrit(past_df + n - 1, 1 - error) * sd / np.sqrt(n) < distance
    return int(n[np.argmax(reached)]) if reached.any() else None


def welch(one: tuple[float, float, int], other: tuple[float, float, int], error: float = ALPHA) -> float:
    """Half of the interval of the difference of two sessions' means (Welch-Satterthwaite).

    Args:
        one: standard deviation of one pair, its degrees of freedom, number of pairs.
        other: the same of the other session.
        error: one-sided.
    """
    parts = [(sd**2 / pairs, df) for sd, df, pairs in (one, other)]
    variance = sum(v for v, _ in parts)
    if variance == 0:
        return 0.0
    df = variance**2 / sum(v**2 / df for v, df in parts)
    return float(special.stdtrit(df, 1 - error)) * math.sqrt(variance)
