"""Many metrics, few false alarms: Holm for claims that count, Benjamini-Hochberg for a look around."""

from __future__ import annotations

from collections.abc import Sequence

FALSE_DISCOVERIES = 0.10
"""Share of false ones among the secondary differences that are pointed out."""


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p, in the order given: comparing each with alpha bounds the chance of any false one."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted, so_far = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        so_far = max(so_far, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = so_far
    return adjusted


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Adjusted p, in the order given: those at most q hold a share of false ones of at most q."""
    order = sorted(range(len(p)), key=lambda i: p[i], reverse=True)
    adjusted, so_far = [0.0] * len(p), 1.0
    for place, i in enumerate(order):
        so_far = min(so_far, p[i] * len(p) / (len(p) - place))
        adjusted[i] = so_far
    return adjusted
