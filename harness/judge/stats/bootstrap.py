"""Acceptance of two arms over the same prompts, resampled by prompt: tokens of one request hang together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.judge.stats.interval import ALPHA
from harness.judge.stats.ratios import Floats

DRAWS = 4000
SEED = 1
"""Fixed: the same evidence gives the same verdict, byte for byte."""
FEWEST = 5
"""Prompts below which resampling them tells nothing."""

Counts = tuple[int, int]
"""Tokens delivered after the first, and the steps that they took."""


@dataclass(frozen=True)
class Acceptance:
    """Log ratio of tokens per step, candidate to control, with its interval by bootstrap."""

    change: float
    low: float
    high: float
    prompts: int


def acceptance(control: Mapping[str, Counts], candidate: Mapping[str, Counts]) -> Acceptance | None:
    """Compare tokens per step over the prompts that both arms answered; None for fewer than FEWEST.

    Each draw takes prompts with replacement, both arms' counts of a prompt together, and forms the
    token-weighted ratio: a paired cluster bootstrap, 90 % percentile interval.

    Args:
        control: counts by prompt.
        candidate: counts by prompt.
    """
    shared = [p for p in control if p in candidate and control[p][1] and candidate[p][1]]
    if len(shared) < FEWEST:
        return None
    counts = np.array([(*control[p], *candidate[p]) for p in shared], dtype=np.float64)
    drawn = np.random.default_rng(SEED).multinomial(len(shared), np.full(len(shared), 1 / len(shared)), DRAWS)
    ratios = _log_ratio(drawn @ counts)
    low, high = (float(x) for x in np.quantile(ratios, (ALPHA, 1 - ALPHA)))
    seen = float(_log_ratio(counts.sum(axis=0)))
    return Acceptance(seen, low, high, len(shared)) if math.isfinite(seen) else None


def _log_ratio(sums: Floats) -> Floats:
    tokens, steps, their_tokens, their_steps = np.moveaxis(np.asarray(sums), -1, 0)
    found: Floats = np.log((their_tokens / their_steps) / (tokens / steps))
    return found
