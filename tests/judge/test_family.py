"""Metrics of a session judged together: what is primary, what history adds, what many metrics cost."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle, write_record
from harness.judge.case import Case, Cell, read_case
from harness.judge.family import Metric, judge_family
from harness.judge.paired import conclude, explore, judge_pairs, measure_pairs
from harness.judge.read import LaunchEvidence
from harness.judge.stats.families import holm
from harness.records import Plan
from harness.records.statistics import Past
from harness.words import Arm, Cache, Warmup, Word

from .bundles import WARM, Judged, Session

FOUR: dict[str, object] = {"plan.pairs": 4, "plan.caches": ["warm"]}
HUNDRED = [100.0] * 4
WORSE = [95.5, 94.5, 96.5, 95.0]
"""About -4.6 %, some 0.9 % of scatter."""


def past(sd: float, df: float = 20.0, name: str = "decode steps", context: int | None = 96) -> Past:
    return Past(mode="mtp1", warmup=Warmup.ENGINE, cache=Cache.WARM, name=name, context_tokens=context, sd=sd, df=df)


def frozen(bundle: Bundle, **fields: object) -> Judged:
    """Judge a bundle whose plan had these fields."""
    plan: Plan = bundle.plan()
    write_record(bundle.plan_file, plan.model_copy(update=fields))
    return Judged.of(bundle)


def scattered(root: Path, speeds: tuple[float, ...] = (0.96, 1.01, 0.985, 1.0)) -> Bundle:
    session = Session(root, FOUR)
    for pair, speed in enumerate(speeds):
        session.candidate(where=WARM | {"pair": pair}, speed=speed)
    return session.build()


# --- Holm --------------------------------------------------------------------------------------------


def test_a_regression_that_many_metrics_would_show_by_chance_is_not_called_one() -> None:
    found = measure_pairs(HUNDRED, WORSE, margin_pct=3, more_is_better=True)
    alone = conclude(found, p_regressed=found.p_regressed, p_improved=1.0)
    assert alone.word is Word.FAIL
    many = conclude(found, p_regressed=min(1.0, 20 * found.p_regressed), p_improved=1.0, claims=20)
    assert many.word is Word.INCONCLUSIVE
    assert "alone it would be a regression (p 0.0" in many.reason
    assert ", among 20 metrics p is " in many.reason
    assert many.reason.endswith(" pairs would resolve it")
    assert many.tested is not None
    assert many.tested.pairs_needed is not None
    assert many.tested.pairs_needed > 4


A_A = {
    "start-up": ([43.82, 37.98, 39.22, 41.56], [41.88, 40.61, 39.18, 42.87]),
    "prefill 2048": ([155_859.5, 113_587.5, 132_485.4, 107_272.7], [135_231.9, 161_857.4, 127_654.7, 151_629.3]),
    "prefill 32768": ([506_504.1, 689_005.9, 456_763.6, 546_592.6], [528_078.0, 623_857.8, 540_050.0, 580_543.1]),
    "decode steps 2048": ([449.0, 336.7, 373.3], [519.7, 492.0, 447.1]),
    "decode steps 32768": ([389.0, 497.8, 428.7, 349.8], [427.8, 521.1, 482.9, 376.2]),
}
"""Control and candidate of 20261130T163003Z-h200-forged-f39c9d: the same stack twice, warm starts, one H200."""


def test_the_same_stack_twice_is_no_improvement_because_two_of_five_metrics_were_lucky() -> None:
    margins = {"start-up": 5.0, "prefill": 3.0, "decode steps": 2.0}
    tests = {
        name: measure_pairs(*pairs, margin_pct=margins[name.rstrip(" 0123456789")], more_is_better=name != "start-up")
        for name, pairs in A_A.items()
    }
    alone = {n: conclude(t, p_regressed=t.p_regressed, p_improved=t.p_improved).word for n, t in tests.items()}
    assert [n for n, word in alone.items() if word is Word.IMPROVED] == ["decode steps 2048", "decode steps 32768"]

    adjusted = holm([t.p_improved for t in tests.values()])
    judged = {
        n: conclude(t, p_regressed=t.p_regressed, p_improved=p, claims=5)
        for (n, t), p in zip(tests.items(), adjusted, strict=True)
    }
    assert Word.IMPROVED not in {j.word for j in judged.values()}
    lucky = judged["decode steps 32768"]
    assert lucky.word is Word.PASS, "worse it is not"
    assert lucky.reason.startswith("+8.7 %, 90 % interval +4.7 % to +12.")
    assert lucky.reason.endswith("alone it would be an improvement (p 0.014), among 5 metrics p is 0.068")
    assert lucky.tested is not None
    assert (lucky.tested.p_improved, lucky.tested.p_improved_adjusted) == pytest.approx((0.0136, 0.068), abs=4e-4)


def test_an_improvement_that_many_metrics_would_not_show_by_chance_is_called_one(tmp_path: Path) -> None:
    judged = Session(tmp_path, FOUR).candidate(speed=1.2).judge()
    row = judged.row("decode steps", cache="warm", context_tokens=96)
    assert row.word is Word.IMPROVED
    assert row.tested is not None
    assert row.tested.p_improved_adjusted is not None
    assert row.tested.p_improved_adjusted < 0.05


def test_a_session_adjusts_over_its_primary_metrics_and_nothing_else(tmp_path: Path) -> None:
    judged = Session(tmp_path, FOUR).candidate(speed=0.9).judge()
    tested = [r.tested for r in judged.verdict.rows if r.tested]
    primary = [t for t in tested if t.primary]
    assert len(primary) == 5, "prefill and steps at two contexts, and the warm start"
    assert len(tested) - len(primary) == 6, "first prompt, tok/s and tokens per step at two contexts"
    assert all(t.p <= t.p_adjusted <= 5 * t.p + 1e-9 for t in primary)
    assert all(t.p_improved_adjusted is not None for t in primary)


# --- what is primary ---------------------------------------------------------------------------------


def test_a_metric_that_the_plan_does_not_name_decides_nothing(tmp_path: Path) -> None:
    bundle = Session(tmp_path, FOUR).candidate(speed=0.9).build()
    judged = frozen(bundle, primary_metrics=("mtp1 start-up",))
    row = judged.row("decode steps", cache="warm", context_tokens=96)
    assert row.word is Word.NOTE
    assert row.reason.startswith("exploratory: worse (adjusted p < 0.001): -10.0 %")
    assert judged.verdict.exit_code == 0
    assert frozen(bundle, primary_metrics=("mtp1 decode steps 96",)).verdict.exit_code == 1


def test_a_bundle_of_before_names_were_those_of_rows_is_judged_as_it_was(tmp_path: Path) -> None:
    bundle = Session(tmp_path, FOUR).candidate(speed=0.9).build()
    before = ("prefill 48", "prefill 96", "decode 48", "decode 96", "warm start")
    assert frozen(bundle, primary_metrics=before).row("decode steps", cache="warm", context_tokens=96).word is Word.FAIL
    assert frozen(bundle, primary_metrics=()).row("prefill", cache="warm", context_tokens=96).word is Word.FAIL


def test_a_plan_of_before_there_was_history_is_readable(tmp_path: Path) -> None:
    import json

    bundle = Session(tmp_path, FOUR).build()
    plan = json.loads(bundle.plan_file.read_bytes())
    for field in ("looks", "history", "measurement", "calibration", "night"):
        del plan[field]
    bundle.plan_file.write_text(json.dumps(plan), "utf-8")
    found = bundle.plan()
    assert (found.looks, found.history, found.measurement) == (1, (), 1)


@pytest.mark.parametrize(("p_adjusted", "expected"), [(0.09, Word.NOTE), (0.11, Word.NOT_TESTED)])
def test_a_secondary_metric_is_a_note_at_most(p_adjusted: float, expected: Word) -> None:
    found = measure_pairs(HUNDRED, WORSE, margin_pct=3, more_is_better=True)
    assert explore(found, p_adjusted=p_adjusted).word is expected


# --- history and looks -------------------------------------------------------------------------------


def test_history_of_the_same_metric_is_pooled_and_said(tmp_path: Path) -> None:
    bundle = scattered(tmp_path)
    alone = Judged.of(bundle).row("decode steps", cache="warm", context_tokens=96)
    assert alone.word is Word.INCONCLUSIVE
    with_history = frozen(bundle, history=(past(0.012),))
    row = with_history.row("decode steps", cache="warm", context_tokens=96)
    assert row.tested is not None
    assert alone.tested is not None
    assert row.tested.history_df == 20
    assert row.tested.df == 23
    assert row.tested.own_sd == alone.tested.own_sd == alone.tested.sd, "history is never made of itself"
    assert row.tested.sd < row.tested.own_sd
    assert row.tested.detectable_pct < alone.tested.detectable_pct
    assert "noise pooled with 20 degrees of freedom of history" in row.reason
    other = with_history.row("decode steps", cache="warm", context_tokens=48)
    assert other.tested is not None
    assert other.tested.history_df is None, "history is of one metric in one cell"


def test_history_is_dropped_and_that_is_said(tmp_path: Path) -> None:
    row = frozen(scattered(tmp_path), history=(past(0.002),)).row("decode steps", cache="warm", context_tokens=96)
    assert row.tested is not None
    assert row.tested.history_df is None
    assert row.tested.df == 3
    assert ", history dropped: the noise is " in row.reason


def test_two_looks_cost_width(tmp_path: Path) -> None:
    bundle = scattered(tmp_path)
    once = Judged.of(bundle).row("prefill", cache="warm", context_tokens=96).tested
    twice = frozen(bundle, looks=2).row("prefill", cache="warm", context_tokens=96)
    assert once is not None
    assert twice.tested is not None
    assert (once.confidence_pct, twice.tested.confidence_pct) == (90, 94)
    assert twice.tested.low_pct < once.low_pct
    assert "94 % interval" in twice.reason


# --- what stands beside every word -------------------------------------------------------------------


@pytest.mark.parametrize("candidate", [WORSE, HUNDRED, [110.0, 111, 109, 112], [90.0, 99, 104, 93]])
def test_every_answer_says_what_could_have_been_seen(candidate: list[float]) -> None:
    judged = judge_pairs(HUNDRED, candidate, margin_pct=3, more_is_better=True)
    assert "minimum detectable " in judged.reason
    assert judged.tested is not None
    assert judged.tested.low_pct <= judged.tested.change_pct <= judged.tested.high_pct


def test_the_sign_flip_is_shown_and_a_disagreement_is_not_hidden() -> None:
    six = judge_pairs([100.0] * 6, [90.0, 91, 90, 91, 92, 90], margin_pct=3, more_is_better=True)
    assert six.reason.endswith("; sign-flip p 0.016")
    four = judge_pairs(HUNDRED, [90.0, 91, 90, 91], margin_pct=3, more_is_better=True)
    assert four.reason.endswith("; sign-flip p 0.062, 4 pairs cannot give less")
    # One pair above the margin among many far below it: t is sure, the flips are not.
    odd = [0.955, 0.955, 0.955, 0.975, 0.96, 0.955]
    judged = judge_pairs([1.0] * 6, odd, margin_pct=3, more_is_better=True, past=past(0.008))
    assert judged.word is Word.FAIL
    assert judged.tested is not None
    assert judged.tested.p_sign_flip == pytest.approx(2 / 64)
    lower = judge_pairs(
        [1.0] * 5, [0.955, 0.955, 0.955, 0.985, 0.955], margin_pct=3, more_is_better=True, past=past(0.008)
    )
    assert lower.word is Word.FAIL
    assert lower.reason.endswith(", which does not agree")


def test_figures_and_words_are_the_same_numbers() -> None:
    judged = judge_pairs(HUNDRED, WORSE, margin_pct=3, more_is_better=True)
    t = judged.tested
    assert t is not None
    d = [math.log(x / 100) for x in WORSE]
    assert t.change_pct == pytest.approx(100 * math.expm1(sum(d) / 4))
    assert f"{t.low_pct:+.1f} % to {t.high_pct:+.1f} %" in judged.reason
    assert (t.pairs, t.margin_pct, t.df, t.primary) == (4, 3, 3, True)


def test_a_figure_of_nothing_is_no_pair(tmp_path: Path) -> None:
    """A start that took no time is a clock that jumped: that pair has no ratio, and the judge does not stumble."""

    def figure(launch: LaunchEvidence) -> float | None:
        assert launch.record is not None
        planned = launch.record.launch
        return 0.0 if (planned.arm, planned.pair) == (Arm.CANDIDATE, 1) else 10.0 + planned.pair

    def metrics(_: Case, cell: Cell) -> Iterator[Metric]:
        if cell.cache is Cache.WARM:
            yield Metric("start-up", None, figure, 5.0, more_is_better=False)

    case = read_case(Session(tmp_path, FOUR).build())
    found = judge_family(case, metrics)["mtp1", Warmup.ENGINE, Cache.WARM, "start-up", None].tested
    assert found is not None
    assert found.pairs == 3


def test_one_pair_is_judged_without_loading_statistics(tmp_path: Path) -> None:
    bundle = Session(tmp_path, {"plan.caches": ["cold", "warm"]}).build()
    program = (
        "import sys; from pathlib import Path; from harness.evidence.bundle import Bundle; "
        "from harness.judge.verdict import judge; judge(Bundle(Path(sys.argv[1]))); print('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(bundle.root)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
