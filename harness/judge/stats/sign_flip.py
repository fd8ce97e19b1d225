"""The exact sign-flip test: what the pairs say without any belief about how noise is distributed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_PAIRS = 16
"""2^16 flips are counted in a moment; where there are more pairs, the t interval needs no cross-check."""
ROUNDING = 1e-12


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """One-sided exact p of "no shift" against a mean as low as the one seen; None beyond MOST_PAIRS.

    Under no shift each difference is as likely with the other sign, so p is the share of the 2^n ways to
    set the signs whose sum is not above the one seen. It cannot be below 2^-n.
    """
    n = len(differences)
    if not 1 <= n <= MOST_PAIRS:
        return None
    d = np.asarray(differences, dtype=np.float64)
    signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    sums = signs @ d
    return float(np.mean(sums <= d.sum() + ROUNDING * np.abs(d).sum()))
