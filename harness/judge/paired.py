"""Is a paired metric worse by more than its margin? Three answers, and the third is "not shown".

On d = log(candidate / control) per pair, signed so that more is better, with a 90 % t interval of
the mean (one-sided 95 % on each side). Pooling of historical variance comes with the history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.words import Word

ALPHA = 0.05
"""One-sided error on each side of the 90 % interval."""


MOST_PAIRS = 200
"""No host is asked for more."""


@dataclass(frozen=True)
class Judgement:
    """What pairs of launches say about one metric."""

    word: Word
    reason: str


def judge_pairs(
    control: Sequence[float], candidate: Sequence[float], *, margin_pct: float, more_is_better: bool
) -> Judgement:
    """Judge pairs of launches, `control[i]` against `candidate[i]`; all values positive.

    One pair has no spread, so it shows a ratio and tests nothing.
    """
    differences = [math.log(b / a) * (1 if more_is_better else -1) for a, b in zip(control, candidate, strict=True)]
    mean = sum(differences) / len(differences)
    change = _percent(mean)
    n = len(differences)
    if n < 2:
        return Judgement(Word.NOT_TESTED, f"{change} (better is +); one pair shows no spread, use --pairs 4 or more")

    from scipy.stats import t  # noqa: PLC0415  # most of a second, only where there is something to test

    spread = math.sqrt(sum((d - mean) ** 2 for d in differences) / (n - 1))
    half = float(t.ppf(1 - ALPHA, n - 1)) * spread / math.sqrt(n)
    delta = math.log1p(margin_pct / 100)
    low, high = mean - half, mean + half
    shown = (
        f"{change}, 90 % interval {_percent(low)} to {_percent(high)} (better is +), margin {margin_pct:g} %, {n} pairs"
    )
    if high < -delta:
        return Judgement(Word.FAIL, f"regressed: {shown}")
    if low > delta:
        return Judgement(Word.IMPROVED, shown)
    if low > -delta:
        return Judgement(Word.PASS, f"slightly slower: {shown}" if high < 0 else shown)
    return Judgement(Word.INCONCLUSIVE, f"{shown}; {_pairs_needed(spread, abs(mean + delta))} pairs would resolve it")


def _pairs_needed(spread: float, distance: float) -> str:
    """Smallest even number of pairs whose interval no longer reaches the margin, if mean and spread stay as seen."""
    from scipy.stats import t  # noqa: PLC0415

    for n in range(4, MOST_PAIRS + 1, 2):
        if float(t.ppf(1 - ALPHA, n - 1)) * spread / math.sqrt(n) < distance:
            return f"about {n}"
    return f"more than {MOST_PAIRS}"


def _percent(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio):+.1%}".replace("%", " %")
