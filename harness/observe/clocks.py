"""Two clocks of one host: a wall clock that left the monotonic one was set, or the host slept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

JUMP_S = 0.5
SLEW = 0.001
"""Clocks that NTP slews part by at most 500 ppm (adjtimex(2)); this is twice that."""


def jump_s(moments: Sequence[tuple[int, int]]) -> float | None:
    """The largest step of wall time against monotonic time between two moments, in s; None where there is none.

    Args:
        moments: monotonic and wall time in ns, of the same instants, in order.
    """
    jumps = [
        apart
        for (mono_a, wall_a), (mono_b, wall_b) in pairwise(moments)
        if abs(apart := (wall_b - wall_a - (mono_b - mono_a)) / 1e9) > JUMP_S + SLEW * (mono_b - mono_a) / 1e9
    ]
    return max(jumps, key=abs, default=None)
