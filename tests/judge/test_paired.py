"""Pairs of launches against a margin: regressed, improved, within it, or not shown."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.judge.paired import judge_pairs
from harness.words import ExitCode, Word

from .bundles import WARM, Session

HUNDRED = [100.0] * 4
PAIRS: dict[str, object] = {"plan.caches": ["warm"], "plan.pairs": 4}


def word(candidate: list[float], *, margin: float = 3.0, more_is_better: bool = True) -> Word:
    control = [100.0] * len(candidate)
    return judge_pairs(control, candidate, margin_pct=margin, more_is_better=more_is_better).word


# --- the four answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("candidate", [50.0, 100.0, 200.0])
def test_one_pair_shows_a_ratio_and_tests_nothing(candidate: float) -> None:
    judged = judge_pairs([100.0], [candidate], margin_pct=3, more_is_better=True)
    assert judged.word is Word.NOT_TESTED
    assert judged.reason.startswith(f"{candidate - 100:+.1f} % (better is +); one pair shows no spread")


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ([90.0, 91, 90, 91], Word.FAIL),
        ([110.0, 111, 110, 111], Word.IMPROVED),
        ([100.0, 100.5, 99.5, 100], Word.PASS),
        ([98.4, 98.5, 98.6, 98.5], Word.PASS),
        ([94.0, 100, 96, 103], Word.INCONCLUSIVE),
        ([101.0, 104, 102, 103], Word.PASS),  # better, and not beyond the margin for sure
        ([100.0, 100.0, 100.0, 100.0], Word.PASS),
    ],
)
def test_the_interval_against_the_margin_decides(candidate: list[float], expected: Word) -> None:
    assert word(candidate) is expected


def test_a_regression_is_called_one_and_slightly_slower_is_said() -> None:
    assert judge_pairs(HUNDRED, [90.0, 91, 90, 91], margin_pct=3, more_is_better=True).reason.startswith("regressed: -")
    slower = judge_pairs(HUNDRED, [98.4, 98.5, 98.6, 98.5], margin_pct=3, more_is_better=True)
    assert (slower.word, slower.reason[:23]) == (Word.PASS, "slightly slower: -1.5 %")
    equal = judge_pairs(HUNDRED, [99.5, 100.5, 99.6, 100.4], margin_pct=3, more_is_better=True)
    assert "slower" not in equal.reason


def test_two_pairs_far_apart_are_inconclusive_and_say_how_many_would_do() -> None:
    judged = judge_pairs([100.0, 100.0], [95.0, 104.0], margin_pct=3, more_is_better=True)
    assert judged.word is Word.INCONCLUSIVE
    assert "2 pairs; about " in judged.reason
    assert judged.reason.endswith(" pairs would resolve it")


def test_direction_is_part_of_the_metric() -> None:
    # Seconds: 10 % more of them is a regression, 10 % fewer an improvement.
    assert word([110.0, 111, 110, 111], more_is_better=False) is Word.FAIL
    assert word([90.0, 91, 90, 91], more_is_better=False) is Word.IMPROVED
    judged = judge_pairs([10.0] * 2, [12.5] * 2, margin_pct=5, more_is_better=False)
    assert judged.reason.startswith("regressed: -20.0 %"), "25 % more time is 20 % less speed"


# --- the arithmetic ----------------------------------------------------------------------------------


def test_an_interval_computed_by_hand() -> None:
    # d = ln(0.98), ln(1.00), ln(0.99), ln(1.01); t(0.95; 3) = 2.3534 by the table.
    d = [math.log(x) for x in (0.98, 1.0, 0.99, 1.01)]
    mean = (-0.020203 + 0.0 - 0.010050 + 0.009950) / 4
    assert mean == pytest.approx(sum(d) / 4, abs=1e-6)
    squares = [(-0.020203 - mean) ** 2, mean**2, (-0.010050 - mean) ** 2, (0.009950 - mean) ** 2]
    half = 2.3534 * math.sqrt(sum(squares) / 3) / 2
    assert [math.expm1(mean - half), math.expm1(mean + half)] == pytest.approx([-0.0200, 0.0099], abs=5e-4)
    judged = judge_pairs(HUNDRED, [98.0, 100.0, 99.0, 101.0], margin_pct=3, more_is_better=True)
    assert judged.reason == (
        "-0.5 %, 90 % interval -2.0 % to +1.0 % (better is +), margin 3 %, "
        "minimum detectable 2.2 %, 4 pairs; sign-flip p 0.062, 4 pairs cannot give less"
    )


values = st.lists(st.tuples(st.floats(50, 200), st.floats(50, 200)), min_size=2, max_size=8)


@given(values, st.sampled_from([1.0, 2.0, 3.0, 5.0]), st.booleans())
def test_the_answer_is_scipys_interval_against_the_margin(
    pairs: list[tuple[float, float]], margin: float, more_is_better: bool
) -> None:
    control, candidate = [a for a, _ in pairs], [b for _, b in pairs]
    d = [math.log(b / a) if more_is_better else math.log(a / b) for a, b in pairs]
    mean, spread = sum(d) / len(d), float(stats.sem(d))
    low, high = stats.t.interval(0.9, len(d) - 1, loc=mean, scale=spread) if spread else (mean, mean)
    delta = math.log(1 + margin / 100)
    near = any(abs(bound - edge) < 1e-9 for bound in (low, high) for edge in (-delta, delta))
    if near:
        return
    expected = (
        Word.FAIL
        if high < -delta
        else Word.IMPROVED
        if low > delta
        else Word.PASS
        if low > -delta
        else Word.INCONCLUSIVE
    )
    assert judge_pairs(control, candidate, margin_pct=margin, more_is_better=more_is_better).word is expected


@given(values)
def test_arms_that_change_places_change_the_sign_and_nothing_else(pairs: list[tuple[float, float]]) -> None:
    opposite = {Word.FAIL: Word.IMPROVED, Word.IMPROVED: Word.FAIL}
    control, candidate = [a for a, _ in pairs], [b for _, b in pairs]
    one = judge_pairs(control, candidate, margin_pct=3, more_is_better=True).word
    other = judge_pairs(candidate, control, margin_pct=3, more_is_better=True).word
    seconds = judge_pairs(candidate, control, margin_pct=3, more_is_better=False).word
    assert seconds is one
    if one in opposite:
        assert other is opposite[one]


@pytest.mark.parametrize(
    "candidate", [[95.0, 104.0], [96.0, 97.5, 97.0, 98.5], [94.0, 100, 96, 103], [90.0, 99.0, 104.0, 93.0]]
)
def test_the_number_of_pairs_that_would_resolve_it_does(candidate: list[float]) -> None:
    control = [100.0] * len(candidate)
    judged = judge_pairs(control, candidate, margin_pct=3, more_is_better=True)
    assert judged.word is Word.INCONCLUSIVE
    needed = int(judged.reason.rpartition("about ")[2].split()[0])
    d = [math.log(x / 100) for x in candidate]
    mean, spread = sum(d) / len(d), stats.tstd(d)

    def reaches(n: int) -> bool:
        half = stats.t.ppf(0.95, n - 1) * spread / math.sqrt(n)
        return bool(mean - half <= -math.log(1.03) <= mean + half)

    assert not reaches(needed)
    assert reaches(needed - 2)
    assert needed > len(candidate), "more pairs than there are, or the answer would be there"


def test_a_mean_on_the_margin_needs_more_pairs_than_anybody_has() -> None:
    edge = 100 / 1.03
    judged = judge_pairs(
        HUNDRED, [edge * 0.99, edge / 0.99, edge * 0.99, edge / 0.99], margin_pct=3, more_is_better=True
    )
    assert judged.reason.endswith("; more than 200 pairs would resolve it")


# --- in a session ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "steps", "prefill"),
    [
        (1.0, Word.PASS, Word.PASS),
        (0.9, Word.FAIL, Word.FAIL),
        (1.1, Word.IMPROVED, Word.IMPROVED),
        (0.985, Word.PASS, Word.PASS),
        (0.975, Word.FAIL, Word.PASS),  # 2 % margin for steps, 3 % for tokens
    ],
)
def test_every_rate_is_judged_with_its_own_margin(tmp_path: Path, speed: float, steps: Word, prefill: Word) -> None:
    judged = Session(tmp_path, PAIRS).candidate(speed=speed).judge()
    for context in (48, 96):
        assert judged.row("decode steps", cache="warm", context_tokens=context).word is steps
        assert judged.row("prefill", cache="warm", context_tokens=context).word is prefill
        assert judged.row("decode", cache="warm", context_tokens=context).word is Word.NOT_TESTED
    # Cold cells are judged on start-up, KV and JIT only.
    for name in ("prefill", "decode steps"):
        cold = "cold-cache cells are judged on start-up, KV tokens and JIT only"
        assert {(r.word, r.reason) for r in judged.rows(name, cache="cold")} == {(Word.NOT_TESTED, cold)}
    assert judged.verdict.exit_code == (ExitCode.FAIL if steps is Word.FAIL else ExitCode.PASS)


def test_without_speculation_tokens_per_second_are_judged(tmp_path: Path) -> None:
    judged = Session(tmp_path, PAIRS | {"plan.modes": ["mtp0"]}).candidate(speed=0.9).judge()
    assert judged.row("decode", cache="warm", context_tokens=48).word is Word.FAIL
    assert not judged.rows("decode steps")
    assert not judged.rows("tokens per step")


@pytest.mark.parametrize(("start_s", "expected"), [(10.0, Word.PASS), (12.0, Word.FAIL), (8.0, Word.IMPROVED)])
def test_a_start_that_takes_longer_is_the_worse_one(tmp_path: Path, start_s: float, expected: Word) -> None:
    judged = Session(tmp_path, PAIRS).candidate(start_s=start_s).judge()
    assert judged.row("start-up", cache="warm").word is expected
    assert judged.row("start-up", cache="cold").word is Word.NOT_TESTED, "one pair"


def test_launches_that_scatter_are_inconclusive(tmp_path: Path) -> None:
    session = Session(tmp_path, PAIRS)
    for pair, speed in enumerate((0.90, 1.02, 0.97, 1.06)):
        session.candidate(where=WARM | {"pair": pair}, speed=speed)
    judged = session.judge()
    assert judged.row("decode steps", cache="warm", context_tokens=96).word is Word.INCONCLUSIVE
    assert (judged.verdict.verdict, judged.verdict.exit_code) == (Word.INCONCLUSIVE, ExitCode.INCONCLUSIVE)


def test_pairs_are_judged_as_pairs(tmp_path: Path) -> None:
    # The host drifts by far more than the margin, and both launches of a pair drift together.
    session = Session(tmp_path, PAIRS)
    for pair, speed in enumerate((0.7, 1.0, 1.3, 1.6)):
        session.both(where=WARM | {"pair": pair}, speed=speed)
    assert session.judge().row("decode steps", cache="warm", context_tokens=96).word is Word.PASS
