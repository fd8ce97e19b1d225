"""Seen and named, not seen, or not run: what a verdict says of a control."""

from __future__ import annotations

import pytest

from harness.controls.control import Control
from harness.controls.outcome import got, outcome_of
from harness.controls.record import Outcome
from harness.words import Word

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
