"""From the figures of two arms to differences in which better is always plus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_ratios(control: Sequence[float], candidate: Sequence[float], *, more_is_better: bool) -> Floats:
    """The log of candidate / control per pair, its sign turned where less is better. All values positive.

    Raises:
        ValueError: a figure is not positive, or a pair lacks a side.
    """
    if len(control) != len(candidate):
        raise ValueError(f"{len(control)} figures of the control, {len(candidate)} of the candidate")
    ours, theirs = np.asarray(control, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    if (ours <= 0).any() or (theirs <= 0).any():
        raise ValueError("a ratio needs figures above zero")
    found: Floats = np.log(theirs / ours) * (1.0 if more_is_better else -1.0)
    return found


def margin(percent: float) -> float:
    """A margin on the scale of log ratios; as far below zero as above it."""
    return float(np.log1p(percent / 100))
