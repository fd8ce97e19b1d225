"""The client's self-test as a row, and the arithmetic of drafts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.evidence.bundle import write_record
from harness.judge.verdict import judge
from harness.records import Row
from harness.records.client import SelfTest
from harness.words import ExitCode, Word

from .bundles import Session

GOOD: dict[str, Any] = {
    "streams": 64,
    "events_expected": 6400,
    "events_received": 6400,
    "tokens_expected": 9000,
    "tokens_received": 9000,
    "ids_exact": True,
    "events_per_s": 60_000,
    "delivery_p50_ms": 0.5,
    "delivery_p99_ms": 5.0,
    "first_token_error_ms": 1.0,
    "rate_error_pct": 1.0,
    "client_cores": 0.3,
}


def row_of(tmp_path: Path, **changes: Any) -> tuple[Row, int]:
    bundle = Session(tmp_path).build()
    write_record(bundle.selftest_file, SelfTest(**(GOOD | changes)))
    verdict = judge(bundle)
    [row] = [r for r in verdict.rows if r.name == "client self-test"]
    return row, verdict.exit_code


def test_at_its_bars_the_client_passes(tmp_path: Path) -> None:
    row, code = row_of(tmp_path)
    assert (row.word, code) == (Word.PASS, ExitCode.PASS)
    assert "60,000 events/s of CPU, delivery p50 0.50 and p99 5.00 ms at 64 streams" in row.reason
    assert row.sources == ("selftest.json",)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"events_per_s": 59_999}, "59,999 events/s of CPU, bar 60,000"),
        ({"delivery_p50_ms": 0.51}, "delivery p50 0.51 ms, bar 0.5"),
        ({"delivery_p99_ms": 5.01}, "delivery p99 5.01 ms, bar 5"),
        ({"first_token_error_ms": 1.01}, "first-token error 1.01 ms, bar 1"),
        ({"rate_error_pct": 1.01}, "rate error 1.01 %, bar 1"),
        ({"rate_error_pct": None}, "rate error unknown %, bar 1"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else None,
)
def test_times_beyond_a_bar_are_a_warning_and_not_a_miscount(
    tmp_path: Path, changes: dict[str, float], told: str
) -> None:
    row, code = row_of(tmp_path, **changes)
    assert (row.word, code) == (Word.WARN, ExitCode.PASS)
    assert told in row.reason


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"events_received": 6399}, "6399 events of 6400"),
        ({"tokens_received": 9001}, "9001 tokens of 9000"),
        ({"ids_exact": False}, "token ids are not the server's"),
        ({"error": "ConnectionError: refused"}, "ConnectionError: refused"),
    ],
    ids=["events", "tokens", "ids", "an error"],
)
def test_a_client_that_miscounts_voids_the_session(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    row, code = row_of(tmp_path, **changes)
    assert (row.word, code) == (Word.VOID, ExitCode.VOID)
    assert told in row.reason


def test_a_self_test_that_could_not_be_run_says_why(tmp_path: Path) -> None:
    row, code = row_of(tmp_path, error="the built-in server did not start", events_expected=None, events_received=None)
    assert (row.word, code) == (Word.WARN, ExitCode.PASS)
    assert "the built-in server did not start" in row.reason


def test_without_one_nothing_is_claimed(tmp_path: Path) -> None:
    row = Session(tmp_path).judge().row("client self-test")
    assert row.word is Word.NOT_TESTED


# --- draft arithmetic ---------------------------------------------------------------------------------

ARITHMETIC = "draft arithmetic"


def test_the_counters_explain_every_token(tmp_path: Path) -> None:
    row = Session(tmp_path).judge().row(ARITHMETIC)
    assert row.word is Word.PASS
    assert row.control == row.candidate
    assert row.control is not None
    total, _, rest = row.control.replace(",", "").partition(" = ")
    requests, drafts, accepted, trimmed = (int(part.split()[0]) for part in rest.replace(" - ", " + ").split(" + "))
    assert int(total) == requests + drafts + accepted - trimmed
    assert 0 <= trimmed <= requests


@pytest.mark.parametrize("fault", ["lost-draft", "extra-draft"])
@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_a_draft_too_few_or_too_many_voids_the_window(tmp_path: Path, arm: str, fault: str) -> None:
    session = Session(tmp_path)
    judged = getattr(session, arm)(faults={"decode/96/0": fault}).judge()
    row = judged.row(ARITHMETIC)
    assert row.word is Word.VOID
    assert "decode/96/0" in row.reason
    assert judged.verdict.exit_code == ExitCode.VOID


def test_without_drafts_there_is_no_arithmetic(tmp_path: Path) -> None:
    assert not [r for r in Session(tmp_path, {"plan.modes": ["mtp0"]}).judge().verdict.rows if r.name == ARITHMETIC]


def test_a_scrape_that_failed_is_left_out(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(faults={"decode/96/0": "no-scrape"}).judge()
    row = judged.row(ARITHMETIC)
    assert row.word is Word.PASS
    assert row.control != row.candidate
