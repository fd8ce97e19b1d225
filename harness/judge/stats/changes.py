"""Change points of a series of nights: penalised least squares over levels, exact and without a random number.

Each night is the mean log ratio of today's stack to an anchor that was measured beside it, so drift of the
host is gone and what is left is noise of known size. In units of that noise a split is worth making when it
saves more than `penalty` of the squares: one split of pure noise saves a chi-square of one degree of freedom,
so a penalty that grows with 2 ln(nights) + 2 ln(series) keeps the alarms of a whole series of looks rare
(docs/history.md has the simulated figures). A segment has two nights at least: one night is no change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.judge.stats.ratios import Floats

FEWEST_NIGHTS = 5
"""Below this only the night's own A/B speaks."""
LASTS = 2
"""Nights that a change must last."""
MOST_NIGHTS = 120
"""Older nights of a series are left out."""
LEAST_NOISE = 1e-3
"""Log ratio below which no night's mean is believed to repeat."""
BASE_PENALTY = 8.0
MAD = 1.4826
SPIKE = 3.0
"""Noise of a difference by which a lone night must stand apart from the one before and the one after."""
STANDS_APART = 4.0
"""Noise from the level before, beyond which a last night alone is worth a note."""


@dataclass(frozen=True)
class Night:
    """One night's figure."""

    mean: float
    """Mean log ratio to the anchor."""
    pairs: int
    own_sd: float | None
    """Of one pair; None for a single pair."""


@dataclass(frozen=True)
class Change:
    """What a series says on its last night. Places count from 0; levels are log ratios."""

    noise: float
    """Standard deviation of one night's mean, as used."""
    penalty: float
    starts: tuple[int, ...]
    """First night of each segment but the first."""
    levels: tuple[float, ...]
    since: int | None
    """First night of the change that holds now; None where the level is that of the first segment."""
    lasting: bool
    """At least two nights since then are nearer to the new level than to the old one."""
    apart: float
    """How far the last night alone lies from the level before it, in units of noise."""
    spikes: tuple[int, ...]
    """Nights that stood apart from both neighbours on one side: they move no level."""

    @property
    def shift(self) -> float:
        """Level now less that of the first segment."""
        return self.levels[-1] - self.levels[0]

    @property
    def step(self) -> float:
        """Level now less that of the segment before."""
        return self.levels[-1] - self.levels[-2] if len(self.levels) > 1 else 0.0


def penalty(nights: int, series: int) -> float:
    """Squares, in units of noise, that a split must save."""
    return BASE_PENALTY + 2 * math.log(nights) + 2 * math.log(max(1, series))


def change(nights: Sequence[Night], *, series: int, smallest: float) -> Change:
    """What the nights say about now.

    Args:
        nights: oldest first, at least FEWEST_NIGHTS.
        series: how many series are looked at together: each alone is judged more strictly.
        smallest: log ratio below which a shift is none.
    """
    noise = night_noise(nights)
    means, spikes = _without_spikes(np.array([n.mean for n in nights]), noise)
    allowed = penalty(len(nights), series)
    scaled = means / noise
    starts = _starts(scaled, allowed)
    bounds = [0, *starts, len(nights)]
    levels = [float(means[a:b].mean()) for a, b in pairwise(bounds)]
    since = _since(levels, bounds, smallest) if _apart(scaled, bounds, allowed) else None
    lasting = False
    if since is not None:
        middle = (levels[0] + levels[-1]) / 2
        beyond = means[since:] < middle if levels[-1] < levels[0] else means[since:] > middle
        lasting = bool(beyond.sum() >= LASTS and beyond[-1])
    before = float(np.median(means[bounds[-2] : -1]))
    return Change(
        noise=float(np.mean(noise)),
        penalty=allowed,
        starts=tuple(starts),
        levels=tuple(levels),
        since=since,
        lasting=lasting,
        apart=float((means[-1] - before) / noise[-1]),
        spikes=spikes,
    )


def night_noise(nights: Sequence[Night]) -> Floats:
    """Standard deviation of each night's mean: of its pairs, as pooled over all nights, or of the nights if more.

    What pairs of one session share (a cache, a clock, a neighbour) shows only between nights. It is taken from
    the differences of successive nights by their median, which a step or an outlier does not move.
    """
    known = [(n.own_sd, n.pairs - 1) for n in nights if n.own_sd is not None and n.pairs > 1]
    df = sum(d for _, d in known)
    pairs = np.array([n.pairs for n in nights], dtype=np.float64)
    within = math.sqrt(sum(d * sd**2 for sd, d in known) / df) if df else 0.0
    noise = np.maximum(within / np.sqrt(pairs), LEAST_NOISE)
    steps = np.abs(np.diff([n.mean for n in nights])) / np.sqrt((noise[1:] ** 2 + noise[:-1] ** 2) / 2)
    between = MAD * float(np.median(steps)) / math.sqrt(2) if len(steps) else 0.0
    found: Floats = noise * max(1.0, between)
    return found


def _without_spikes(means: Floats, noise: Floats) -> tuple[Floats, tuple[int, ...]]:
    """The nights with each lone outlier put where its nearer neighbour is: one bad night is no level.

    Of three nights of which the middle one stands apart, either that one is the outlier or both others are; the
    median of all nights tells. The first night is held against the two after it, the last one stays as it is.
    """
    from_all = np.abs(means - np.median(means))
    smoothed, lone = means.copy(), []
    for place in range(len(means) - 1):
        around = [1, 2] if place == 0 else [place - 1, place + 1]
        away = [(means[place] - means[n]) / math.hypot(noise[place], noise[n]) for n in around]
        apart = min(away) > SPIKE or max(away) < -SPIKE
        if apart and from_all[place] > max(from_all[n] for n in around):
            lone.append(place)
            smoothed[place] = means[min(around, key=lambda n: abs(means[n] - means[place]))]
    return smoothed, tuple(lone)


def _starts(scaled: Floats, allowed: float) -> list[int]:
    from ruptures.detection import Pelt  # type: ignore[import-untyped]  # noqa: PLC0415  # half a second, nightly only

    found = Pelt(model="l2", min_size=LASTS, jump=1).fit_predict(scaled.reshape(-1, 1), pen=allowed)
    return [int(end) for end in found[:-1]]


def _apart(scaled: Floats, bounds: Sequence[int], allowed: float) -> bool:
    """True where a split between the first segment and the last alone would save what it must.

    A level that went up and came back differs from the first by noise, which may be more than the smallest change.
    """
    first, last = scaled[: bounds[1]], scaled[bounds[-2] :]
    saved = (last.mean() - first.mean()) ** 2 * len(first) * len(last) / (len(first) + len(last))
    return bool(saved >= allowed)


def _since(levels: Sequence[float], bounds: Sequence[int], smallest: float) -> int | None:
    """First night from which on every level lies at least half way from the first to the last one."""
    shift = levels[-1] - levels[0]
    if len(levels) == 1 or abs(shift) < smallest:
        return None
    place = len(levels) - 1
    while place > 1 and (levels[place - 1] - levels[0]) / shift >= 0.5:
        place -= 1
    return bounds[place]
