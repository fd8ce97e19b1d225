"""The bars that the judge's statistics must hold, over sessions made up with a fixed seed."""

from __future__ import annotations

import re

import pytest

from benchmarks.generated import generated
from benchmarks.judge import DOC, EFFECTS_PCT, NOISE_PCT, Looked, World, mtp, simulate
from harness.judge.stats.interval import Answer

NO_WORSE = (Answer.PASS, Answer.SLOWER, Answer.IMPROVED)


def test_a_patch_that_changes_nothing_passes() -> None:
    found = simulate(World(noise_pct=1.0))
    assert found.share(Answer.REGRESSED) <= 0.05
    assert found.share(*NO_WORSE) >= 0.95


def test_a_loss_of_five_percent_never_passes_and_is_mostly_called_one() -> None:
    found = simulate(World(noise_pct=1.0, effect_pct=-5.0))
    assert found.share(*NO_WORSE) <= 0.0005, "normal noise has no end, so a share of zero would be a matter of the seed"
    assert found.share(Answer.REGRESSED) >= 0.80


@pytest.mark.parametrize("drift", ["linear", "exponential"])
@pytest.mark.parametrize("noise", [0.3, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("history", [20.0, 0.0])
def test_a_host_that_grows_warm_is_not_called_a_regression(drift: str, noise: float, history: float) -> None:
    found = simulate(World(noise_pct=noise, drift_pct=4.0, drift=drift, history_df=history))
    assert found.share(Answer.REGRESSED) <= 0.05


@pytest.mark.parametrize("noise", NOISE_PCT)
@pytest.mark.parametrize("pairs", [2, 4, 6])
@pytest.mark.parametrize("history", [20.0, 0.0])
def test_at_the_margin_either_error_is_about_five_percent(noise: float, pairs: int, history: float) -> None:
    on_the_margin = 100 * (1 / 1.03 - 1)
    found = simulate(World(noise_pct=noise, pairs=pairs, effect_pct=on_the_margin, history_df=history))
    assert found.share(Answer.REGRESSED) <= 0.06
    assert found.share(*NO_WORSE) <= 0.06


def test_a_second_look_does_not_buy_more_false_regressions() -> None:
    on_the_margin = 100 * (1 / 1.03 - 1)
    found = simulate(World(noise_pct=1.0, effect_pct=on_the_margin, escalate=True, history_df=0.0))
    assert found.share(Answer.REGRESSED) <= 0.055
    once = simulate(World(noise_pct=1.0, effect_pct=-5.0))
    twice = simulate(World(noise_pct=1.0, effect_pct=-5.0, escalate=True))
    assert twice.share(Answer.REGRESSED) > once.share(Answer.REGRESSED)


def test_history_of_another_noise_makes_no_false_regressions() -> None:
    for share in (0.25, 0.5, 2.0):
        assert simulate(World(noise_pct=2.0, true_history=share)).share(Answer.REGRESSED) <= 0.05
    dropped = simulate(World(noise_pct=3.0, true_history=0.1))
    alone = simulate(World(noise_pct=3.0, history_df=0.0))
    assert dropped.share(*NO_WORSE) == pytest.approx(alone.share(*NO_WORSE), abs=0.02)


@pytest.mark.parametrize("history", [20.0, 0.0])
def test_steps_show_a_slow_kernel_that_tokens_hide(history: float) -> None:
    steps, tokens = mtp(history_df=history)
    assert steps.excludes_zero >= 0.90
    assert steps.share(Answer.REGRESSED) > 0.5
    assert tokens.excludes_zero < 0.25
    assert tokens.share(Answer.REGRESSED) < 0.10


def test_a_control_of_the_simulation_itself_arms_in_order_and_drift_would_be_called_a_regression() -> None:
    """Without blocks the drift would show: so the bar above tests the order, and not a drift too small to matter."""
    from benchmarks import judge

    class _Places:
        @staticmethod
        def all_of_one_first(pairs: int, _: int) -> tuple[tuple[int, int], ...]:
            return tuple((n, pairs + n) for n in range(pairs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "_places", _Places.all_of_one_first)
        found: Looked = simulate(World(noise_pct=0.3, drift_pct=8.0))
    assert found.share(Answer.REGRESSED) > 0.9


def test_the_documents_tables_are_of_these_worlds() -> None:
    tables = generated(DOC, "judge")
    rows = re.findall(r"^\| [\d.]+ % \| \d(?:, then 6)? \|.*$", tables, flags=re.MULTILINE)
    assert len(rows) == 2 * len(NOISE_PCT) * 4
    assert all(row.count("/") == 3 * len(EFFECTS_PCT) for row in rows)
    # Written by these functions: one cell of each kind again, exactly as seeded.
    for row, world in ((rows[9], World(noise_pct=1.0)), (rows[33], World(noise_pct=1.0, history_df=0.0))):
        cell = row.split("|")[4 + EFFECTS_PCT.index(0.0)]
        passed = 100 * simulate(world).share(Answer.PASS, Answer.SLOWER)
        assert float(cell.split("/")[2]) == pytest.approx(passed, abs=1.0)
