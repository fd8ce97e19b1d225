"""Seen and named, not seen, or not run: what a verdict says of a control.

First with verdicts that are made for it, then with the controls as they stand and the judge's own rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.controls.control import Arms, Control, Expected
from harness.controls.outcome import got, outcome_of
from harness.controls.record import Outcome
from harness.controls.table import CONTROLS, KERNEL
from harness.records import Verdict
from harness.words import Word
from tests.judge.bundles import Session

from .verdicts import DIES, LESS, SAME, SERVED, WORSE_DRAFTS, verdict

Rows = tuple[tuple[str, Word, str], ...]


@pytest.mark.parametrize(
    ("control", "rows", "outcome", "why"),
    [
        pytest.param(LESS, (SERVED, ("KV tokens", Word.FAIL, "-50 %: beyond it")), Outcome.CAUGHT, "", id="caught"),
        pytest.param(
            LESS,
            (SERVED, ("KV tokens", Word.PASS, "equal")),
            Outcome.NOT_CAUGHT,
            'expected KV tokens: fail ("beyond"), got pass: equal',
            id="another word",
        ),
        pytest.param(
            LESS,
            (SERVED, ("KV tokens", Word.FAIL, "the arms differ")),
            Outcome.NOT_CAUGHT,
            'expected KV tokens: fail ("beyond"), got fail: the arms differ',
            id="caught and not named",
        ),
        pytest.param(
            LESS,
            (SERVED, ("prefill", Word.FAIL, "beyond")),
            Outcome.NOT_CAUGHT,
            'expected KV tokens: fail ("beyond"), got there is no such row',
            id="by another row",
        ),
        pytest.param(
            LESS,
            (("served to the end", Word.FAIL, "failed at health"), ("KV tokens", Word.NOT_TESTED, "none")),
            Outcome.SETUP_FAILURE,
            "the candidate did not serve, so it showed nothing else: failed at health",
            id="died of something else",
        ),
        pytest.param(
            LESS,
            (("served to the end", Word.SETUP_FAILURE, "both died"),),
            Outcome.SETUP_FAILURE,
            "the session is a setup failure: served to the end: both died",
            id="both died",
        ),
        pytest.param(
            LESS,
            (SERVED, ("counts agree", Word.VOID, "a foreign request"), ("KV tokens", Word.PASS, "equal")),
            Outcome.SETUP_FAILURE,
            "the session is a void: counts agree: a foreign request",
            id="void",
        ),
        pytest.param(
            LESS,
            (SERVED, ("client kept up", Word.WARN, "woke late"), ("KV tokens", Word.NOT_TESTED, "void")),
            Outcome.SETUP_FAILURE,
            "KV tokens not measured, since this machine is too busy: woke late",
            id="too busy a machine",
        ),
        pytest.param(
            LESS,
            (SERVED, ("client kept up", Word.WARN, "woke late"), ("KV tokens", Word.PASS, "equal")),
            Outcome.NOT_CAUGHT,
            'expected KV tokens: fail ("beyond"), got pass: equal',
            id="busy, and measured",
        ),
        pytest.param(
            DIES,
            (("served to the end", Word.FAIL, "the server ended by itself"),),
            Outcome.CAUGHT,
            "",
            id="death is what was asked for",
        ),
        pytest.param(
            DIES,
            (("served to the end", Word.FAIL, "failed at health: timeout"),),
            Outcome.NOT_CAUGHT,
            'expected served to the end: fail ("ended by itself"), got fail: failed at health: timeout',
            id="another death",
        ),
        pytest.param(WORSE_DRAFTS, (SERVED, ("accepted", Word.WARN, "worse")), Outcome.CAUGHT, "", id="a warning"),
        pytest.param(SAME, (SERVED, ("KV tokens", Word.PASS, "equal")), Outcome.PASSED, "", id="equal arms"),
        pytest.param(
            SAME,
            (SERVED, ("KV tokens", Word.PASS, "equal"), ("KV tokens", Word.NOTE, "one token")),
            Outcome.FALSE_ALARM,
            "expected KV tokens: pass, got note: one token",
            id="equal arms that differ in one cell",
        ),
        pytest.param(
            SAME,
            (SERVED, ("KV tokens", Word.PASS, "equal"), ("prefill", Word.FAIL, "regressed")),
            Outcome.FALSE_ALARM,
            "expected the verdict pass, got fail: prefill: regressed",
            id="equal arms that fail elsewhere",
        ),
        pytest.param(
            SAME,
            (SERVED, ("KV tokens", Word.PASS, "equal"), ("clocks", Word.VOID, "set")),
            Outcome.SETUP_FAILURE,
            "the session is a void: clocks: set",
            id="equal arms, void",
        ),
    ],
)
def test_what_became_of_a_control(control: Control, rows: Rows, outcome: Outcome, why: str) -> None:
    assert outcome_of(control, verdict(*rows)) == (outcome, why)


def test_a_row_that_fails_and_a_session_that_passes_all_the_same_is_not_caught() -> None:
    found = verdict(SERVED, ("KV tokens", Word.FAIL, "beyond"), whole=Word.PASS)
    assert outcome_of(LESS, found) == (Outcome.NOT_CAUGHT, "the row fails, and yet the verdict is pass")


def test_the_row_that_meets_the_expectation_is_shown_else_all_of_its_name() -> None:
    rows = (("KV tokens", Word.PASS, "equal"), ("KV tokens", Word.FAIL, "beyond"), SERVED)
    assert [g.word for g in got(LESS, verdict(*rows))] == [Word.FAIL]
    assert [g.reason for g in got(LESS, verdict(("KV tokens", Word.PASS, "equal")))] == ["equal"]
    assert got(LESS, verdict(SERVED)) == ()


def test_every_expected_row_is_wanted_and_each_that_is_missing_is_named() -> None:
    both = Control("both", "slow and small", (*LESS.expects, Expected("decode", Word.FAIL)), fake=Arms())
    less, slow = ("KV tokens", Word.FAIL, "beyond it"), ("decode", Word.FAIL, "regressed")
    assert outcome_of(both, verdict(SERVED, less, slow)) == (Outcome.CAUGHT, "")
    assert outcome_of(both, verdict(SERVED, less)) == (
        Outcome.NOT_CAUGHT,
        "expected decode: fail, got there is no such row",
    )
    _, why = outcome_of(both, verdict(SERVED))
    assert why.count("there is no such row") == 2
    assert [g.row for g in got(both, verdict(SERVED, less, slow))] == ["KV tokens", "decode"]


# --- with the controls as they stand, and the rows that the judge writes -----------------------------

BOTH_PASSES = {"identity/0/0": 5, "identity/0/1": 5}
NAMED = {control.name: control for control in CONTROLS}

SHOWN: dict[str, Callable[[Path], Session]] = {
    "changed-successor": lambda root: Session(root, forged=False).candidate(diverge=BOTH_PASSES),
    "less-kv": lambda root: Session(root).candidate(kv_tokens=30_000),
    "dies-at-first-request": lambda root: Session(root).candidate(stage="first request"),
    "late-kernel": lambda root: Session(root).both(armed=True).candidate(late_kernels=(KERNEL,)),
}
"""Sessions that have the fault of a control."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """Of equal arms."""
    return Session(tmp_path_factory.mktemp("honest")).judge().verdict


@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: c.name)
def test_equal_arms_show_no_fault_of_any_control(control: Control, honest: Verdict) -> None:
    """Else a control would be caught whatever the judge does."""
    assert outcome_of(control, honest)[0] is (Outcome.NOT_CAUGHT if control.worse else Outcome.PASSED)


@pytest.mark.parametrize("name", SHOWN)
def test_a_fault_is_caught_in_the_judges_own_words(name: str, tmp_path: Path) -> None:
    found = SHOWN[name](tmp_path).judge().verdict
    assert outcome_of(NAMED[name], found) == (Outcome.CAUGHT, "")
    assert {g.row for g in got(NAMED[name], found)} == {expected.row for expected in NAMED[name].expects}
    assert outcome_of(NAMED["same"], found)[0] in (Outcome.FALSE_ALARM, Outcome.SETUP_FAILURE)


def test_a_candidate_that_never_served_shows_nothing_else(tmp_path: Path) -> None:
    found = Session(tmp_path).candidate(stage="health").judge().verdict
    outcome, why = outcome_of(NAMED["less-kv"], found)
    assert outcome is Outcome.SETUP_FAILURE
    assert why.startswith("the candidate did not serve, so it showed nothing else: ")


def test_a_speed_that_a_busy_machine_did_not_measure_is_not_called_unseen(tmp_path: Path) -> None:
    found = Session(tmp_path).candidate(kv_tokens=30_000, client_lag_ms=50.0).judge().verdict
    outcome, why = outcome_of(NAMED["deeper"], found)
    assert outcome is Outcome.SETUP_FAILURE
    assert why.startswith("decode steps not measured, since this machine is too busy: ")
