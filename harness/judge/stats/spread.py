"""How much pairs scatter: this session's own differences, pooled with what the host is known for.

A handful of pairs says little about its own noise; twenty degrees of freedom of history are worth about
two launches per arm (notes/anchors.md 2.4). So that old noise never speaks for new noise, a chi-square
test compares them first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from harness.judge.stats.ratios import Floats

MOST_HISTORY = 30.0
"""Degrees of freedom beyond which history counts no more: it must not drown what was measured today."""
NOISE_CHANGED = 0.01
"""Chance of dropping history whose noise is still the same. More would make a quiet host inconclusive for
nothing; a false verdict needs the margin crossed as well (docs/judge.md shows both)."""


@dataclass(frozen=True)
class Spread:
    """Standard deviation of one pair's log ratio. Arrays of one shape: one element per session."""

    sd: Floats
    df: Floats
    """Degrees of freedom: pairs - 1, and those of the history that was kept."""
    kept: NDArray[np.bool_]
    """History was used."""


def pool(sd: Floats, pairs: int, past_sd: Floats | None, past_df: float = 0.0) -> Spread:
    """s^2 = (df0*s0^2 + (n-1)*s_d^2) / (df0 + n - 1), or s_d alone where the noise has grown.

    Only more noise drops history: dropping it for less would trust a spread that is small by luck.

    Args:
        sd: s_d, of this session's `pairs` differences.
        pairs: n, at least 2.
        past_sd: s0, or None where there is no history.
        past_df: df0, counted up to MOST_HISTORY.
    """
    own = float(pairs - 1)
    if past_sd is None or past_df <= 0:
        return Spread(sd, np.full_like(sd, own), np.zeros(sd.shape, dtype=np.bool_))
    past = min(past_df, MOST_HISTORY)
    kept = own * sd**2 <= special.chdtri(own, NOISE_CHANGED) * past_sd**2
    pooled = np.sqrt((past * past_sd**2 + own * sd**2) / (past + own))
    return Spread(np.where(kept, pooled, sd), np.where(kept, past + own, own), kept)
