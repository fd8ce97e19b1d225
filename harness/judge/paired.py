"""Is a paired metric worse by more than its margin? Three answers, and the third is "not shown".

On d = log(candidate / control) per pair, signed so that better is plus, with a 90 % t interval of the mean
(one-sided 95 % on each side), its noise pooled with the host's history where plan.json holds one. A
regression must also hold after Holm's correction over the session's primary metrics (DESIGN 6), and so
must an improvement: an A/A session on an H200 had two of five metrics "improved" without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.judge.judgement import Judgement, one_pair, percent
from harness.judge.stats import interval
from harness.judge.stats.families import FALSE_DISCOVERIES
from harness.judge.stats.interval import Answer
from harness.judge.stats.ratios import log_ratios, margin
from harness.judge.stats.sign_flip import sign_flip_p
from harness.judge.stats.spread import pool
from harness.records.statistics import Past, Tested
from harness.words import Word


@dataclass(frozen=True)
class PairTest:
    """Differences of a metric as they were found, before other metrics are taken into account."""

    differences: tuple[float, ...]
    margin_pct: float
    mean: float
    half: float
    """Half of the interval."""
    sd: float
    df: float
    own_sd: float
    """Of these pairs alone."""
    past: Past | None
    kept: bool
    """History was used for the noise."""
    foreign: bool
    """History is there, and of another cell."""
    error: float
    """One-sided, per look."""
    p_regressed: float
    p_improved: float
    p_different: float

    @property
    def pairs(self) -> int:
        """Pairs of launches."""
        return len(self.differences)


def measure_pairs(
    control: Sequence[float],
    candidate: Sequence[float],
    *,
    margin_pct: float,
    more_is_better: bool,
    past: Past | None = None,
    foreign: bool = False,
    looks: int = 1,
) -> PairTest:
    """Test `control[i]` against `candidate[i]`; at least two pairs, all values positive.

    Args:
        control: one figure per pair.
        candidate: the same.
        margin_pct: what counts as worse.
        more_is_better: False for times.
        past: noise that the plan holds.
        foreign: that noise is of another cell, so it is left out, and the row says so.
        looks: how often the session is looked at.
    """
    d = log_ratios(control, candidate, more_is_better=more_is_better)
    n, mean, error = len(d), float(d.mean()), interval.alpha(looks)
    own = np.std(d, ddof=1, keepdims=True)
    usable = None if foreign else past
    spread = pool(own, n, None if usable is None else np.array([usable.sd]), usable.df if usable else 0.0)
    sd, df = float(spread.sd[0]), float(spread.df[0])
    return PairTest(
        differences=tuple(float(x) for x in d),
        margin_pct=margin_pct,
        mean=mean,
        half=float(interval.half_width(spread.sd, spread.df, n, error)[0]),
        sd=sd,
        df=df,
        own_sd=float(own[0]),
        past=past,
        kept=bool(spread.kept[0]),
        foreign=foreign,
        error=error,
        p_regressed=interval.p_below(mean, sd, df, n, -margin(margin_pct)),
        p_improved=interval.p_below(-mean, sd, df, n, -margin(margin_pct)),
        p_different=interval.p_different(mean, sd, df, n),
    )


def conclude(found: PairTest, *, p_regressed: float, p_improved: float, claims: int = 1) -> Judgement:
    """The word of a primary metric.

    Args:
        found: its pairs.
        p_regressed: that of `found`, adjusted over the session's primary metrics.
        p_improved: the same.
        claims: how many of those there are.
    """
    delta = margin(found.margin_pct)
    answer = Answer(int(interval.answers(np.float64(found.mean), np.float64(found.half), delta)))  # type: ignore[arg-type]
    alone = answer is Answer.REGRESSED and p_regressed >= found.error
    lucky = answer is Answer.IMPROVED and p_improved >= found.error
    if lucky:
        answer = Answer.PASS
    needed = None
    if answer is Answer.INCONCLUSIVE or alone:
        error = found.error / claims if alone else found.error
        past_df = found.df - found.pairs + 1
        needed = interval.pairs_needed(found.sd, past_df, abs(found.mean + delta), error)
    p_flip = None if alone else _sign_flip(found, answer, delta)
    better = (found.p_improved, p_improved)
    tested = _tested(found, (found.p_regressed, p_regressed), better=better, p_sign_flip=p_flip, needed=needed)
    shown = _shown(found, tested)
    resolve = f"{f'about {needed}' if needed else f'more than {interval.MOST_PAIRS}'} pairs would resolve it"
    if alone:
        seen = _alone("a regression", found.p_regressed, p_regressed, claims)
        return Judgement(Word.INCONCLUSIVE, f"{shown}; {seen}; {resolve}", tested)
    if answer is Answer.INCONCLUSIVE:
        return Judgement(Word.INCONCLUSIVE, f"{shown}; {resolve}", tested)
    shown += _flip_text(found, p_flip)
    if lucky:
        shown += f"; {_alone('an improvement', found.p_improved, p_improved, claims)}"
    return {
        Answer.REGRESSED: Judgement(Word.FAIL, f"regressed: {shown}", tested),
        Answer.SLOWER: Judgement(Word.PASS, f"slightly slower: {shown}", tested),
        Answer.PASS: Judgement(Word.PASS, shown, tested),
        Answer.IMPROVED: Judgement(Word.IMPROVED, shown, tested),
    }[answer]


def explore(found: PairTest, *, p_adjusted: float) -> Judgement:
    """The word of a secondary metric: a note at most, after Benjamini-Hochberg over all of them."""
    tested = _tested(found, (found.p_different, p_adjusted))
    if p_adjusted > FALSE_DISCOVERIES:
        return Judgement(Word.NOT_TESTED, f"exploratory: no clear change: {_shown(found, tested)}", tested)
    side = "worse" if found.mean < 0 else "better"
    return Judgement(Word.NOTE, f"exploratory: {side} (adjusted p {_p(p_adjusted)}): {_shown(found, tested)}", tested)


def judge_pairs(
    control: Sequence[float],
    candidate: Sequence[float],
    *,
    margin_pct: float,
    more_is_better: bool,
    past: Past | None = None,
    looks: int = 1,
) -> Judgement:
    """Judge a metric that stands alone. One pair has no spread, so it shows a ratio and tests nothing."""
    if len(control) < 2:
        return one_pair(control[0], candidate[0], more_is_better=more_is_better)
    found = measure_pairs(
        control,
        candidate,
        margin_pct=margin_pct,
        more_is_better=more_is_better,
        past=past,
        looks=looks,
    )
    return conclude(found, p_regressed=found.p_regressed, p_improved=found.p_improved)


def _shown(found: PairTest, tested: Tested) -> str:
    low, high = (percent(x / 100) for x in (tested.low_pct, tested.high_pct))
    return (
        f"{percent(tested.change_pct / 100)}, {tested.confidence_pct:g} % interval {low} to {high} (better is +), "
        f"margin {found.margin_pct:g} %, minimum detectable {tested.detectable_pct:.2g} %, "
        f"{found.pairs} pairs{_history_text(found)}"
    )


def _alone(what: str, p: float, p_adjusted: float, claims: int) -> str:
    return f"alone it would be {what} (p {_p(p)}), among {claims} metrics p is {_p(p_adjusted)}"


def _history_text(found: PairTest) -> str:
    if found.past is None:
        return ""
    if found.foreign:
        return ", history left out: it is of another cell"
    if found.kept:
        return f", noise pooled with {found.df - found.pairs + 1:g} degrees of freedom of history"
    times = found.sd / found.past.sd if found.past.sd else float("inf")
    return f", history dropped: the noise is {times:.2g} times what it was"


def _sign_flip(found: PairTest, answer: Answer, delta: float) -> float | None:
    """The exact p of what the answer claims: below -delta, above it, or above +delta."""
    if answer is Answer.INCONCLUSIVE:
        return None
    if answer is Answer.REGRESSED:
        return sign_flip_p([d + delta for d in found.differences])
    edge = delta if answer is Answer.IMPROVED else -delta
    return sign_flip_p([edge - d for d in found.differences])


def _flip_text(found: PairTest, p: float | None) -> str:
    if p is None:
        return ""
    least = f", {found.pairs} pairs cannot give less" if p <= 2.0**-found.pairs else ", which does not agree"
    return f"; sign-flip p {_p(p)}{least if p > found.error else ''}"


def _tested(
    found: PairTest,
    p: tuple[float, float],
    *,
    better: tuple[float, float] | None = None,
    p_sign_flip: float | None = None,
    needed: int | None = None,
) -> Tested:
    """Figures of a test: its p, and that of an improvement for primary metrics, each before and after adjustment."""
    mean, half = found.mean, found.half
    change, low, high, seen = (
        _rounded(100 * math.expm1(x))
        for x in (mean, mean - half, mean + half, interval.detectable(found.sd, found.df, found.pairs, found.error))
    )
    return Tested(
        pairs=found.pairs,
        primary=better is not None,
        change_pct=change,
        low_pct=low,
        high_pct=high,
        confidence_pct=round(100 * (1 - 2 * found.error), 6),
        margin_pct=found.margin_pct,
        sd=_rounded(found.sd),
        df=found.df,
        own_sd=_rounded(found.own_sd),
        history_df=found.df - found.pairs + 1 if found.kept else None,
        detectable_pct=seen,
        p=_rounded(p[0]),
        p_adjusted=_rounded(p[1]),
        p_improved=_rounded(better[0]) if better else None,
        p_improved_adjusted=_rounded(better[1]) if better else None,
        p_sign_flip=p_sign_flip,
        pairs_needed=needed,
    )


def _rounded(value: float) -> float:
    """Nine digits: what another machine's libm rounds otherwise must not change a verdict's bytes."""
    return float(f"{value:.9g}")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.2g}"
