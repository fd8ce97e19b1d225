"""The primary metrics pair by pair, and tok/s taken apart: figures and pictures."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.report.decomposition import splits
from harness.report.effect_plots import decomposition, forest
from harness.report.effects import Effect, effects
from harness.report.html import page
from harness.report.text import signed
from harness.words import Word
from tests.judge.bundles import Session
from tests.report.pictures import check

PAIRS: dict[str, object] = {"plan.caches": ["warm"], "plan.pairs": 4}
ONE: dict[str, object] = {"plan.caches": ["warm"], "plan.pairs": 1}


def case_of(folder: Path, overrides: dict[str, object], speed: float) -> Case:
    return read_case(Session(folder, overrides).candidate(speed=speed).build())


def found_in(case: Case) -> list[Effect]:
    return effects(case, judge_case(case))


class TestEffects:
    def test_they_are_the_primary_metrics_of_the_plan_in_order_and_nothing_else(self, tmp_path: Path) -> None:
        case = case_of(tmp_path, PAIRS, 1.0)
        found = found_in(case)
        named = {name.partition(" ")[2] for name in case.plan.primary_metrics}
        assert len(found) == len(case.plan.primary_metrics)
        assert {e.name.replace(",", "") for e in found} == named

    def test_a_slower_candidate_lies_left_of_its_margin_and_fails(self, tmp_path: Path) -> None:
        case = case_of(tmp_path, PAIRS, 0.9)
        slow = next(e for e in found_in(case) if e.name.startswith("decode steps"))
        assert slow.word is Word.FAIL
        assert slow.tested is not None
        assert slow.tested.high_pct < slow.edge_pct < 0
        assert [round(p) for p in slow.pairs_pct] == [-10] * 4
        assert slow.title == f"mtp1 engine warm: {slow.name}"
        assert slow.sources, "it names its files"

    def test_word_and_reason_are_those_of_the_row(self, tmp_path: Path) -> None:
        case = case_of(tmp_path, PAIRS, 0.9)
        verdict = judge_case(case)
        rows = {(r.name, r.context_tokens): r for r in verdict.rows if r.tested}
        for effect in effects(case, verdict):
            assert any(r.word is effect.word and r.reason == effect.reason for r in rows.values())

    def test_one_pair_is_a_point_without_an_interval(self, tmp_path: Path) -> None:
        case = case_of(tmp_path, ONE, 0.9)
        for effect in found_in(case):
            assert effect.tested is None
            assert len(effect.pairs_pct) == 1
        picture = forest(found_in(case))
        assert picture.count("not tested: 1 pair<") == len(found_in(case))
        assert "interval" not in (check(picture).findtext("desc") or "")

    def test_the_edge_of_the_margin_is_that_of_the_logarithm(self, tmp_path: Path) -> None:
        effect = found_in(case_of(tmp_path, ONE, 1.0))[0]
        assert math.log1p(effect.edge_pct / 100) == pytest.approx(-math.log1p(effect.margin_pct / 100))

    def test_the_forest_says_its_figures_in_words_and_is_the_same_each_time(self, tmp_path: Path) -> None:
        found = found_in(case_of(tmp_path, PAIRS, 0.9))
        picture = forest(found)
        assert picture == forest(found)
        told = check(picture).findtext("desc") or ""
        for effect in found:
            assert effect.tested is not None
            assert f"{effect.title}: {signed(effect.tested.change_pct)}, 90 % interval" in told

    def test_a_session_of_cold_launches_says_that_nothing_was_tested(self, tmp_path: Path) -> None:
        case = read_case(Session(tmp_path).build())
        assert found_in(case) == []
        assert "nothing about speed was tested" in page(case, judge_case(case))


class TestDecomposition:
    def test_of_a_slower_engine_all_is_steps_and_nothing_is_drafts(self, tmp_path: Path) -> None:
        warm = [s for s in splits(case_of(tmp_path, PAIRS, 0.9)) if s.cache == "warm"]
        assert [s.context_tokens for s in warm] == [48, 96]
        for split in warm:
            assert split.steps.change_pct == pytest.approx(-10, abs=0.1)
            assert split.per_step is not None
            assert split.per_step.change_pct == pytest.approx(0, abs=1e-9)
            assert split.tokens.change_pct == pytest.approx(-10, abs=0.1)
            assert split.pairs == 4

    def test_without_speculation_a_step_is_a_token(self, tmp_path: Path) -> None:
        case = case_of(tmp_path, {**ONE, "plan.modes": ["mtp0"]}, 0.9)
        assert splits(case)
        for split in splits(case):
            assert split.per_step is None
            assert split.tokens == split.steps

    def test_a_cell_without_a_rate_in_both_arms_has_none(self, tmp_path: Path) -> None:
        case = read_case(Session(tmp_path, ONE).candidate(ends_after=2).build())
        assert splits(case) == []
        assert "No decode rate was measured in both arms." in page(case, judge_case(case))

    def test_no_difference_has_the_colour_of_an_arm(self, tmp_path: Path) -> None:
        case = case_of(tmp_path, PAIRS, 0.9)
        warm = [s for s in splits(case) if s.cache == "warm"]
        lucky = [replace(s, per_step=replace(s.steps, change_log=0.02)) for s in warm]
        for picture in (forest(found_in(case)), decomposition(lucky)):
            assert set(re.findall(r"--(\w+)", picture)) & {"control", "candidate", "late", "unexplained"} == set()
        assert "<pattern" in decomposition(lucky), "the two parts are told apart by the hatches of one"

    def test_the_picture_says_its_figures_in_words(self, tmp_path: Path) -> None:
        found = splits(case_of(tmp_path, ONE, 0.9))
        told = check(decomposition(found)).findtext("desc") or ""
        assert "mtp1 engine warm 48: tok/s -10.0 %, steps/s -10.0 %, tokens per step +0.0 %" in told
