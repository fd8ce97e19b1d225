"""CPU seconds of a stretch from a counter that is read now and then."""

from __future__ import annotations

import pytest

from harness.observe.cpu import CpuTime

S = 1_000_000_000
HALF = CpuTime.of([(0, 5 * S), (2 * S, 6 * S), (4 * S, 7 * S), (5 * S, 7 * S)])
"""Half a core, then a second of none, by a process that had spent five seconds before."""


@pytest.mark.parametrize(
    ("begin", "end", "spent"),
    [(0, 4, 2.0), (0, 5, 2.0), (1, 3, 1.0), (2.5, 3, 0.25), (4, 5, 0.0), (4.5, 4.5, 0.0)],
    ids=["whole", "to the end", "amidst two readings", "within one period", "idle", "no time at all"],
)
def test_it_is_the_counters_rise_even_between_two_readings(begin: float, end: float, spent: float) -> None:
    assert HALF.spent_s(round(begin * S), round(end * S)) == pytest.approx(spent)


@pytest.mark.parametrize(("begin", "end"), [(-1, 3), (1, 5.1), (-2, -1), (6, 7)])
def test_a_stretch_without_a_reading_on_either_side_is_not_known_and_not_none(begin: float, end: float) -> None:
    assert HALF.spent_s(round(begin * S), round(end * S)) is None


def test_nothing_is_known_without_a_reading_or_of_a_counter_that_falls() -> None:
    assert CpuTime().spent_s(0, 1) is None
    assert CpuTime.of([]).spent_s(0, 1) is None
    assert CpuTime.of([(0, 5), (1, 6), (2, 1)]).spent_s(0, 1) is None


def test_readings_of_one_moment_are_no_division_by_zero() -> None:
    assert CpuTime.of([(0, 1), (1, 2), (1, 2), (2, 3)]).spent_s(0, 2) == pytest.approx(2e-9)
