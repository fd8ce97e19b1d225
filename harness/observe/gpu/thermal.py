"""When has a GPU's temperature settled? A card that still warms up is another machine in every launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

COVERED = 0.8
"""Share of the window that readings must span: a slope of less says nothing about the window."""


def slope_c_per_min(samples: Sequence[tuple[int, int]], window_s: float) -> float | None:
    """Least-squares slope of the last `window_s` seconds of readings.

    Args:
        samples: monotonic time in ns and degrees Celsius, in order of time.
        window_s: seconds before the last reading that count.

    Returns:
        Degrees Celsius per minute; None where the readings do not span the window.
    """
    if not samples:
        return None
    last = samples[-1][0]
    inside = [(t, value) for t, value in samples if last - t <= window_s * 1e9]
    if len(inside) < 3 or last - inside[0][0] < COVERED * window_s * 1e9:
        return None
    minutes = np.array([(t - last) / 60e9 for t, _ in inside])
    return float(np.polyfit(minutes, np.array([value for _, value in inside], float), 1)[0])


def steepest(by_gpu: Mapping[str, Sequence[tuple[int, int]]], window_s: float) -> float | None:
    """Slope of the GPU that changes fastest, up or down; None where that of any is not known."""
    slopes = [slope_c_per_min(samples, window_s) for samples in by_gpu.values()]
    known = [s for s in slopes if s is not None]
    return max(known, key=abs) if known and len(known) == len(slopes) else None
