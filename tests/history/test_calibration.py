"""A host that sees changes in A/A sessions loses the right to judge speed, and gets it back by passing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.evidence.bundle import Bundle, write_record
from harness.history.calibration import FEWEST_ROWS, SESSIONS, Counted, calibrate, calibration_of, wilson
from harness.history.index import Index
from harness.judge.stats.interval import Answer, alpha, answers, half_width
from harness.judge.stats.ratios import margin
from harness.records import Plan
from harness.records.history import Calibration
from harness.words import Word
from tests.judge.bundles import WARM, Judged, Session

from .bench import FOUR, HERE, THERE, Metric, remembered

CLASS = "e" * 64


def sessions(*alarms: int, rows: int = 10, first: int = 0) -> list[Counted]:
    return [Counted(f"s{first + n}", f"{first + n:064x}", rows, a) for n, a in enumerate(alarms)]


# --- the rule ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alarms", "rows", "low", "high"),
    [(0, 20, 0.0, 11.92), (2, 20, 3.37, 26.17), (10, 20, 32.74, 67.26), (1, 1, 26.99, 100.0)],
)
def test_wilsons_interval_is_that_of_the_textbook(alarms: int, rows: int, low: float, high: float) -> None:
    """Against scipy.stats.binomtest(...).proportion_ci(0.9, method="wilson")."""
    from scipy.stats import binomtest

    found = wilson(alarms, rows)
    assert found == pytest.approx((low, high), abs=0.02)
    reference = binomtest(alarms, rows).proportion_ci(0.9, method="wilson")
    assert found == pytest.approx((100 * reference.low, 100 * reference.high), abs=0.02)


def test_a_host_without_any_a_a_session_has_the_right() -> None:
    found = calibrate([])
    assert found.trusted
    assert found.counted == "no row of an A/A session yet"
    assert (found.low_pct, found.high_pct) == (None, None)


def test_more_than_ten_percent_loses_it_and_exactly_ten_does_not() -> None:
    assert calibrate(sessions(1, 1)).trusted
    lost = calibrate(sessions(1, 2))
    assert not lost.trusted
    assert (lost.lost_in, lost.lost_at) == ("s1", "3 of 20 rows")
    assert lost.rows == 0, "what counts from here on is what is run since"


def test_a_few_rows_are_no_rate() -> None:
    assert calibrate(sessions(9, rows=FEWEST_ROWS - 1)).trusted
    assert not calibrate(sessions(9, rows=FEWEST_ROWS)).trusted


def test_it_is_won_back_by_forty_rows_since_and_by_no_fewer() -> None:
    bad = sessions(3, 3)
    assert not calibrate([*bad, *sessions(0, 0, 0, first=2)]).trusted
    passed = calibrate([*bad, *sessions(0, 1, 2, 1, first=2)])
    assert passed.trusted
    assert (passed.lost_in, passed.rows, passed.alarms) == (None, 40, 4)
    assert not calibrate([*bad, *sessions(0, 1, 2, 2, first=2)]).trusted, "more than 10 % of them"


def test_it_is_not_won_back_while_alarms_go_on() -> None:
    found = calibrate(sessions(3, 3, 2, 2, 2))
    assert not found.trusted
    assert found.lost_in == "s1", "it was lost once"
    assert found.counted.startswith("6 of 30 rows in 3 A/A sessions (20 %, 90 % interval ")


def test_what_a_host_did_before_it_was_mended_is_not_held_against_it_for_ever() -> None:
    assert calibrate([*sessions(3, 3, 5, 5, 5, 5), *sessions(0, 0, 0, 0, first=6)]).trusted


def test_old_sessions_do_not_count_for_ever() -> None:
    quiet = sessions(*[0] * SESSIONS)
    assert calibrate([*sessions(1, 1, first=100), *quiet]).alarms == 0


# --- simulated hosts ---------------------------------------------------------------------------------


def host(rng: np.random.Generator, *, launch: float, shared: float, count: int, rows: int = 10) -> list[Counted]:
    """A/A sessions of four pairs, each row judged alone by the judge's own arithmetic.

    `shared` is the noise of an arm over a whole session: what makes a host bad, since no pair shows it.
    """
    found = []
    for number in range(count):
        d = rng.normal(0, np.sqrt(2) * launch, (rows, 4)) + rng.normal(0, shared, (rows, 1))
        half = half_width(np.std(d, axis=1, ddof=1), np.full(rows, 3.0), 4, alpha(1))
        said = answers(d.mean(axis=1), half, margin(3.0))
        alarms = int(np.isin(said, (Answer.REGRESSED, Answer.IMPROVED)).sum())
        found.append(Counted(f"s{number}", f"{number:064x}", rows, alarms))
    return found


def ever_lost(found: list[Counted]) -> bool:
    return any(not calibrate(found[: n + 1]).trusted for n in range(len(found)))


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.02, 0.03])
def test_a_good_host_practically_never_loses_the_right(noise: float) -> None:
    """200 hosts, 60 A/A sessions each, looked at after every one."""
    rng = np.random.default_rng(5)
    assert sum(ever_lost(host(rng, launch=noise, shared=0.0, count=60)) for _ in range(200)) <= 1


def test_a_bad_host_loses_it_within_ten_sessions() -> None:
    rng = np.random.default_rng(6)
    assert sum(ever_lost(host(rng, launch=0.005, shared=0.05, count=10)) for _ in range(200)) >= 198


def test_a_bad_host_hardly_ever_wins_it_back() -> None:
    rng = np.random.default_rng(8)
    won = 0
    for _ in range(100):
        found = host(rng, launch=0.005, shared=0.05, count=30)
        lost = next(n for n in range(30) if not calibrate(found[: n + 1]).trusted)
        won += any(calibrate(found[: n + 1]).trusted for n in range(lost, 30))
    assert won <= 2


def test_a_host_that_was_mended_gets_it_back_and_keeps_it() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        bad = host(rng, launch=0.005, shared=0.05, count=10)
        assert calibrate([*bad, *host(rng, launch=0.01, shared=0.0, count=6)]).trusted


# --- from the index ----------------------------------------------------------------------------------


def of_host(index: Index, host_id: str | None = HERE) -> Calibration | None:
    return calibration_of(index, {"host_id": host_id, "class_sha256": CLASS})


def test_only_judged_primary_rows_of_sound_a_a_sessions_of_this_host_count(index: Index) -> None:
    changed = (-9.0, -4.0)
    said = [Metric(word="fail", interval_pct=changed), Metric(word="improved", interval_pct=(4.0, 9.0))]
    said += [Metric(word=w) for w in ("pass", "inconclusive", "not tested", "void")]
    remembered(index, "mine", *said, Metric(own_sd=None, word="fail", interval_pct=changed))
    remembered(index, "an A/B", *said, kind="A/B")
    remembered(index, "broken", *said, verdict="void")
    remembered(index, "elsewhere", *said, host=THERE)
    found = of_host(index)
    assert found is not None
    assert (found.sessions, found.rows, found.alarms) == (1, 4, 2)
    assert of_host(index, None) is None, "a host that does not say which one it is has no calibration"


@pytest.mark.parametrize(
    ("word", "interval_pct", "alarms"),
    [
        ("inconclusive", (-9.0, -2.92), 1),
        ("inconclusive", (-9.0, -2.91), 0),  # the margin of 3 % is a factor either way
        ("pass", (3.1, 9.0), 1),
        ("pass", (2.9, 9.0), 0),
    ],
)
def test_a_row_that_holm_let_pass_is_still_a_change_that_was_seen(
    index: Index, word: str, interval_pct: tuple[float, float], alarms: int
) -> None:
    """Else a host whose arms have luck of their own would keep the right, the more metrics, the longer."""
    remembered(index, "mine", Metric(word=word, interval_pct=interval_pct))
    found = of_host(index)
    assert found is not None
    assert (found.rows, found.alarms) == (1, alarms)


# --- what the judge makes of it ----------------------------------------------------------------------

LOST = Calibration(
    trusted=False, sessions=1, rows=10, alarms=4, low_pct=18.0, high_pct=66.0, lost_in="s7", lost_at="12 of 60 rows"
)


def judged(root: Path, found: Calibration | None, *, speed: float = 1.0, **candidate: int) -> Judged:
    made = Session(root, FOUR).candidate(where=WARM, speed=speed).candidate(where=None, **candidate)
    bundle: Bundle = made.build()
    plan: Plan = bundle.plan()
    write_record(bundle.plan_file, plan.model_copy(update={"calibration": found}))
    return Judged.of(bundle)


def test_speed_is_refused_with_the_rate_and_what_it_would_have_said(tmp_path: Path) -> None:
    found = judged(tmp_path, LOST, speed=0.8)
    row = found.row("decode steps", cache="warm", context_tokens=96)
    assert row.word is Word.REFUSED
    assert row.reason.startswith(
        "this host lost the right to judge speed in s7: 12 of 60 rows of A/A sessions saw a change; "
        "since then 4 of 10 rows in 1 A/A sessions (40 %, 90 % interval 18 to 66 %); would say fail: regressed: "
    )
    assert row.tested is not None, "the figures stay"
    assert found.row("host calibration").word is Word.REFUSED
    assert found.verdict.verdict is Word.INCONCLUSIVE, "speed was asked for and not shown"
    assert not {r.name for r in found.verdict.rows if r.tested and r.word in (Word.PASS, Word.FAIL, Word.IMPROVED)}


def test_invariants_are_judged_all_the_same(tmp_path: Path) -> None:
    found = judged(tmp_path, LOST, kv_tokens=900_000)
    assert found.row("KV tokens", cache="warm").word is Word.FAIL
    assert found.verdict.verdict is Word.FAIL
    assert found.row("identity, candidate vs control", cache="warm").word is Word.PASS


@pytest.mark.parametrize("known", [None, LOST.model_copy(update={"trusted": True})], ids=["no history", "trusted"])
def test_a_host_with_the_right_judges_as_ever(tmp_path: Path, known: Calibration | None) -> None:
    found = judged(tmp_path, known, speed=0.8)
    assert found.row("decode steps", cache="warm", context_tokens=96).word is Word.FAIL
    assert not found.rows("host calibration")
