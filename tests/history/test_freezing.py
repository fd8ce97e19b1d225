"""What a session takes from those before it: pooled by hand-checked sums, of this host and this cell, and frozen."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle, write_record
from harness.evidence.manifest import root_hash
from harness.history.freezing import MOST_DF, MOST_PAIRS, freeze
from harness.history.importing import import_bundles, opened
from harness.judge.verdict import judge
from harness.paths import history_file
from harness.records import Plan
from harness.records.history import Night, Series
from harness.records.statistics import Past
from harness.words import Arm
from tests.judge.bundles import Judged

from .bench import HERE, QUIET, THERE, session

NOISY = (1.02, 0.97, 1.01, 0.99)
TONIGHT = Night(date="2026-11-20", anchor=None, anchor_session=None)


def take_in(results: Path) -> None:
    with opened() as index:
        import_bundles(index, [results])


def frozen(bundle: Bundle, night: Night | None = None) -> Plan:
    """The plan that a session of the same profile and stacks would get now."""
    plan, _ = freeze(bundle.plan(), bundle.run().host, {arm: bundle.lock(arm) for arm in Arm}, night=night)
    return plan


def steps(plan: Plan) -> Past | None:
    found = [p for p in plan.history if (p.name, p.context_tokens) == ("decode steps", 96)]
    return found[0] if found else None


def own_sd(bundle: Bundle) -> float:
    row = Judged.of(bundle).row("decode steps", cache="warm", context_tokens=96)
    assert row.tested is not None
    return row.tested.own_sd


# --- noise -------------------------------------------------------------------------------------------


def test_noise_is_pooled_over_sessions_by_their_degrees_of_freedom(results: Path) -> None:
    four = session(results, "four", QUIET, day=1)
    two = session(results, "two", NOISY[:2], day=2, overrides={"plan.pairs": 2})
    take_in(results)
    past = steps(frozen(four))
    assert past is not None
    assert past.sd == pytest.approx(math.sqrt((3 * own_sd(four) ** 2 + 1 * own_sd(two) ** 2) / 4), rel=1e-6)
    assert past.df == 4
    assert past.sources == (root_hash(two.root), root_hash(four.root)), "the newest first"


def test_noise_is_of_this_host_and_of_no_other_of_its_class(results: Path) -> None:
    here = session(results, "here", QUIET, host=HERE)
    there = session(results, "there", NOISY, host=THERE)
    nobody = session(results, "nobody", NOISY, host=None)
    take_in(results)
    found = steps(frozen(here))
    assert found is not None
    assert found.sources == (root_hash(here.root),)
    assert (steps(frozen(there)) or found).sources == (root_hash(there.root),)
    assert frozen(nobody).history == (), "noise of a host that does not say which one it is is nobody's"


@pytest.mark.parametrize("other", [{"plan.seed": 7}, {"course.decode_output_tokens": 24}, {"serve.env": {"A": "1"}}])
def test_noise_of_another_cell_is_not_pooled(results: Path, other: dict[str, object]) -> None:
    here = session(results, "here")
    session(results, "elsewhere", NOISY, overrides=other)
    take_in(results)
    found = steps(frozen(here))
    assert found is not None
    assert found.sources == (root_hash(here.root),)


def test_a_candidate_with_other_flags_is_another_cell(results: Path) -> None:
    patched = session(results, "patched", flags={"max_num_seqs": 3})
    session(results, "plain")
    take_in(results)
    found = steps(frozen(patched))
    assert found is not None
    assert found.sources == (root_hash(patched.root),)


def test_a_session_whose_measurement_broke_tells_nothing_of_noise(results: Path) -> None:
    void = session(results, "void", NOISY, interrupted="stopped by the user or the system")
    take_in(results)
    assert frozen(void).history == ()


def test_the_last_sixty_pairs_count_and_thirty_degrees_of_freedom_at_most(results: Path) -> None:
    """Twenty sessions of four pairs in the index; the bundle they come from is there once."""
    bundle = session(results, "s00")
    take_in(results)
    with opened() as index, index.transaction() as sql:
        for n in range(1, 20):
            root = f"{n:064x}"
            for table in ("sessions", "arms", "metrics"):
                columns = [r[1] for r in sql.execute(f"PRAGMA table_info({table})") if r[1] != "id"]
                changed = {"root_sha256": f"'{root}'", "session": f"'s{n:02d}'", "started_wall": f"'2026-12-{n:02d}'"}
                values = ", ".join(changed.get(c, c) for c in columns)
                sql.execute(
                    f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} "
                    f"FROM {table} WHERE root_sha256 = '{root_hash(bundle.root)}'"
                )
    past = steps(frozen(bundle))
    assert past is not None
    assert past.df == MOST_DF
    assert past.sources == tuple(f"{n:064x}" for n in range(19, 19 - MOST_PAIRS // 4, -1))


def test_noise_is_that_of_the_state_in_which_the_caches_were_last_found(results: Path) -> None:
    """A plan can only hope for warm: an engine that compiles anew each time has other noise."""
    warm = session(results, "warm", day=1)
    anew = session(results, "anew", day=2, compiled="miss")
    take_in(results)
    found = steps(frozen(warm))
    assert found is not None
    assert found.sources == (root_hash(anew.root),)
    warm_again = session(results, "warm-again", day=3)
    take_in(results)
    found = steps(frozen(warm))
    assert found is not None
    assert found.sources == (root_hash(warm_again.root), root_hash(warm.root))


def test_an_index_that_cannot_be_opened_costs_the_history_and_nothing_else(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = session(results, "one")
    (results / "file").write_text("", "utf-8")
    monkeypatch.setenv("QUALIFY_HISTORY", str(results / "file" / "history.sqlite"))
    plan, notes = freeze(made.plan(), made.run().host, {arm: made.lock(arm) for arm in Arm}, night=TONIGHT)
    assert (plan.history, plan.calibration, plan.night) == ((), None, TONIGHT)
    assert notes[-1].startswith("history: none is used: ")


# --- the judge takes it from the plan ----------------------------------------------------------------


def test_the_judge_pools_what_the_plan_holds_and_nothing_that_came_later(results: Path) -> None:
    bundle = session(results, "one")
    take_in(results)
    write_record(bundle.plan_file, frozen(bundle))
    first = judge(bundle)
    row = Judged(first).row("decode steps", cache="warm", context_tokens=96)
    assert "noise pooled with 3 degrees of freedom of history" in row.reason
    session(results, "two", NOISY, day=2)
    take_in(results)
    assert judge(bundle) == first
    history_file().unlink()
    assert judge(bundle) == first, "not even the index is needed"


def test_history_of_another_cell_is_left_out_and_the_row_says_so(results: Path) -> None:
    bundle = session(results, "one")
    take_in(results)
    plan = frozen(bundle)
    foreign = tuple(p.model_copy(update={"cell_sha256": "0" * 64, "sd": 1e-6}) for p in plan.history)
    write_record(bundle.plan_file, plan.model_copy(update={"history": foreign}))
    row = Judged.of(bundle).row("decode steps", cache="warm", context_tokens=96)
    assert "history left out: it is of another cell" in row.reason
    assert row.tested is not None
    assert (row.tested.history_df, row.tested.sd) == (None, row.tested.own_sd)


# --- nights ------------------------------------------------------------------------------------------


def night(date: str) -> Night:
    return Night(date=date, anchor=None, anchor_session=None)


def series_of(plan: Plan) -> Series:
    assert plan.night is not None
    [found] = [s for s in plan.night.series if (s.name, s.context_tokens) == ("decode steps", 96)]
    return found


def test_the_nights_before_are_frozen_per_primary_metric_oldest_first(results: Path) -> None:
    for n, speed in ((3, 1.01), (1, 0.99), (2, 1.0)):
        made = session(results, f"n{n}", [x * speed for x in QUIET], day=n, night=night(f"2026-11-{n:02d}"))
    session(results, "by-day", day=9)
    take_in(results)
    plan = frozen(made, TONIGHT)
    assert plan.night is not None
    assert [(s.name, s.context_tokens) for s in plan.night.series] == [
        ("prefill", 48),
        ("prefill", 96),
        ("decode steps", 48),
        ("decode steps", 96),
        ("start-up", None),
    ]
    found = series_of(plan)
    assert [p.night for p in found.points] == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert [p.mean for p in found.points] == pytest.approx([math.log(x) for x in (0.99, 1.0, 1.01)], abs=1e-4)
    assert {p.pairs for p in found.points} == {4}


def test_of_a_night_that_was_run_twice_the_last_counts_and_tonight_is_not_before_itself(results: Path) -> None:
    session(results, "first", [0.9] * 4, day=1, night=night("2026-11-01"))
    again = session(results, "again", day=2, night=night("2026-11-01"))
    session(results, "tonight", day=3, night=TONIGHT)
    take_in(results)
    assert [p.session for p in series_of(frozen(again, TONIGHT)).points] == ["again"]


def test_a_series_is_against_one_anchor(results: Path) -> None:
    made = session(results, "n1", night=night("2026-11-01"))
    take_in(results)
    with opened() as index, index.transaction() as sql:
        sql.execute("UPDATE arms SET software_sha256 = 'other' WHERE arm = 'control'")
    assert series_of(frozen(made, TONIGHT)).points == ()


def test_a_session_by_day_has_no_night(results: Path) -> None:
    made = session(results, "one")
    take_in(results)
    assert frozen(made).night is None
