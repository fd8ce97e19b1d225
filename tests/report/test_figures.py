"""Figures that the judge wrote are read back as they were, and put together without a mean over ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.case import shown
from harness.judge.rows import gpu_memory
from harness.report.figures import Pick, Reading, accepted, chain, difference, reading, relative

MIB = st.lists(st.integers(0, 200_000).map(float), min_size=1, max_size=8)


@given(launches=st.lists(MIB, min_size=1, max_size=6), most=st.booleans())
def test_memory_of_ranks_is_the_worst_one_with_the_range_over_all(launches: list[list[float]], most: bool) -> None:
    text = gpu_memory.worst_and_range(list(launches), most=most)
    pick: Pick = "most" if most else "least"
    found = reading(text, pick)
    every = [v for launch in launches for v in launch]
    assert found is not None
    assert (found.low, found.high) == (min(every), max(every))
    assert found.value == (max(every) if most else min(every))


@given(values=st.lists(st.integers(1, 10**9), min_size=1, max_size=9), form=st.sampled_from(["{:,.1f}", "{:.3f}"]))
def test_speed_of_launches_is_the_middle_one_with_its_range(values: list[int], form: str) -> None:
    found = reading(shown([float(v) for v in values], form), "middle")
    assert found is not None
    assert found.low <= found.value <= found.high
    assert (found.low, found.high) == (min(values), max(values))


@pytest.mark.parametrize("text", [None, "-", "1 / -", "none", "1 of 2", "1,2 x", "", " / "])
def test_what_is_no_figure_of_every_launch_is_none(text: str | None) -> None:
    assert reading(text, "middle") is None


def test_figures_keep_their_digits() -> None:
    assert str(reading("1,234.50 / 1,235.25", "least")) == "1,234.50 (1,234.50-1,235.25)"
    assert str(reading("-3", "least")) == "-3"


def test_changes() -> None:
    one, other = Reading(1_865_920, 1, 1, 0), Reading(1_865_728, 1, 1, 0)
    assert difference(one, other) == "-192"
    assert relative(one, other, digits=3) == "-0.010 %"
    assert (difference(one, None), relative(None, other)) == ("?", "?")
    assert relative(Reading(0, 0, 0, 0), other) == "?"
    assert chain([one, None]) == "1,865,920 (1-1) → ?".replace(" (1-1)", "")


def test_accepted_of_drafted() -> None:
    assert accepted("15,307/23,391 = 0.6544 (MAL 1.654)") == (15_307, 23_391)
    assert accepted("none") is None
