"""When a GPU's temperature has settled."""

from __future__ import annotations

import pytest

from harness.observe.gpu.thermal import slope_c_per_min, steepest

SECOND = 1_000_000_000


def ramp(c_per_min: float, seconds: int = 120, start: float = 40.0) -> list[tuple[int, int]]:
    """A reading per second, in whole degrees as a driver gives them."""
    return [(t * SECOND, round(start + c_per_min * t / 60)) for t in range(seconds + 1)]


@pytest.mark.parametrize("c_per_min", [-6.0, 0.0, 3.0, 12.0])
def test_a_steady_slope_is_found_although_degrees_are_whole(c_per_min: float) -> None:
    slope = slope_c_per_min(ramp(c_per_min), 60)
    assert slope == pytest.approx(c_per_min, abs=0.7)


def test_only_the_last_window_counts() -> None:
    warm = [(t * SECOND, min(70, 40 + t)) for t in range(200)]
    assert slope_c_per_min(warm, 60) == pytest.approx(0.0, abs=1e-9)
    assert slope_c_per_min(warm, 180) == pytest.approx(0.69, abs=0.01)


@pytest.mark.parametrize("samples", [[], [(0, 40)], ramp(0.0, seconds=30)])
def test_readings_that_do_not_span_the_window_say_nothing(samples: list[tuple[int, int]]) -> None:
    assert slope_c_per_min(samples, 60) is None


def test_the_gpu_that_changes_fastest_decides_and_one_that_is_not_known_leaves_it_open() -> None:
    assert steepest({"a": ramp(0.0), "b": ramp(-5.0)}, 60) == pytest.approx(-5.0, abs=0.7)
    assert steepest({"a": ramp(0.0), "b": []}, 60) is None
    assert steepest({}, 60) is None
