"""What a series of free memory comes to, phase by phase."""

from __future__ import annotations

import pytest

from harness.observe.memory import Moments, Prompt, Series, free_figures

MOMENTS = Moments(
    process_ns=100,
    ready_ns=200,
    asked_ns=300,
    stop_ns=600,
    gone_ns=800,
    prompts={2048: Prompt(300, 350, 400), 32_768: Prompt(400, 500, 550)},
)
FREE = Series(
    (90, 150, 290, 310, 340, 360, 390, 450, 510, 590, 700, 790),
    (1000, 40, 500, 450, 470, 480, 480, 100, 380, 390, 600, 990),
)


def test_each_phase_has_the_sample_that_belongs_to_it() -> None:
    found = free_figures(FREE, MOMENTS)
    assert (found.before, found.idle, found.end, found.after) == (1000, 500, 390, 990)
    assert (found.lowest, found.lowest_ns) == (40, 150), "the start-up counts as well"
    assert found.residency == 500


def test_a_prompt_takes_what_was_free_before_it_less_the_lowest_and_keeps_what_is_not_free_after_it() -> None:
    found = free_figures(FREE, MOMENTS).prompts
    assert (found[2048].lowest, found[2048].taken, found[2048].kept) == (450, 50, 20)
    assert (found[32_768].lowest, found[32_768].taken, found[32_768].kept) == (100, 380, 100)


def test_the_sample_after_the_prompt_counts_as_its_lowest_too() -> None:
    free = Series((0, 20), (100, 60))
    [prompt] = free_figures(free, Moments(prompts={1: Prompt(5, 10, 30)})).prompts.values()
    assert (prompt.lowest, prompt.taken, prompt.kept) == (60, 40, 40)


@pytest.mark.parametrize(
    ("free", "lowest"),
    [
        (Series((6, 20), (70, 60)), 70),
        (Series((0, 6), (100, 70)), 70),
        (Series((0, 6, 40), (100, 70, 60)), 70),
        (Series((0, 40), (100, 60)), None),
        (Series((), ()), None),
    ],
    ids=["none before", "none after", "after the next step only", "none near it", "none"],
)
def test_without_a_sample_before_and_after_nothing_is_said_of_what_it_kept(free: Series, lowest: float | None) -> None:
    [prompt] = free_figures(free, Moments(prompts={1: Prompt(5, 10, 30)})).prompts.values()
    assert (prompt.lowest, prompt.taken, prompt.kept) == (lowest, None, None)


def test_a_launch_that_did_not_become_ready_was_never_idle() -> None:
    found = free_figures(FREE, Moments(process_ns=100, stop_ns=600))
    assert (found.before, found.lowest) == (1000, 40)
    assert (found.idle, found.end, found.residency, found.after) == (None, None, None, None)


def test_a_launch_without_moments_has_no_figures() -> None:
    found = free_figures(FREE, Moments())
    assert (found.before, found.idle, found.lowest, found.end, found.after) == (None,) * 5


def test_ends_of_a_stretch_belong_to_it() -> None:
    series = Series((10, 20, 30), (1, 2, 3))
    assert series.lowest(10, 10) == (1, 10)
    assert series.peak(20, 30) == 3
    assert series.peak(31, 40) is None
    assert (series.last_before(9), series.last_before(20), series.last_before(None)) == (None, 2, None)
    assert (series.first_from(20), series.first_from(21, 29), series.first_from(31)) == (2, None, None)
    assert series.period_s() == pytest.approx(1e-8)
    assert Series((1,), (1,)).period_s() is None
