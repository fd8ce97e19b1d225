"""Claims of a stack against what the session shows: each held, refuted and not shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.config.model import Stack
from harness.judge.case import read_case
from harness.judge.read import LaunchEvidence
from harness.judge.rows import claims
from harness.records import Row
from harness.words import Arm, ExitCode, Word

from .bundles import COLD, WARM_TOO, Judged, Session

FOUR: dict[str, object] = {"plan.pairs": 4, "plan.caches": ["warm"]}


def claiming(type_: str, **bound: object) -> Stack:
    fields = {"name": "patched", "description": "an arm", "claims": [{"type": type_, **bound}]}
    return Stack.model_validate_json(json.dumps(fields))


def judged(root: Path, stack: Stack, overrides: dict[str, object] | None = None, **candidate: Any) -> Judged:
    return Session(root, overrides, candidate=stack).candidate(**candidate).judge()


# --- KV tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "kv_tokens", "expected"),
    [
        ({"change_tokens": -100_000}, 2_000_000, Word.PASS),
        ({"change_tokens": -97_152}, 2_000_000, Word.PASS),
        ({"change_tokens": -97_151}, 2_000_000, Word.FAIL),
        ({"change_pct": -5.0}, 2_000_000, Word.PASS),
        ({"change_pct": -4.0}, 2_000_000, Word.FAIL),
        ({"change_pct": 1.0}, 2_200_000, Word.PASS),
        ({"change_pct": 1.0}, 2_097_152, Word.FAIL),
    ],
)
def test_kv_tokens_are_held_against_the_declared_bound(
    tmp_path: Path, bound: dict[str, object], kv_tokens: int, expected: Word
) -> None:
    found = judged(tmp_path, claiming("kv_tokens_min_change", **bound), WARM_TOO, kv_tokens=kv_tokens)
    row = found.row("claim kv_tokens_min_change")
    assert row.word is expected
    assert row.reason.startswith({Word.PASS: "HELD: ", Word.FAIL: "REFUTED: "}[expected])
    assert f"{kv_tokens - 2_097_152:+,} tokens" in row.reason
    assert (row.control, row.candidate) == ("2,097,152", f"{kv_tokens:,}")
    assert any("001.prom" in s for s in row.sources)


def test_a_declared_cost_of_kv_tokens_is_no_failure_and_an_undeclared_one_is(tmp_path: Path) -> None:
    declared = claiming("kv_tokens_min_change", change_tokens=-100_000)
    found = judged(tmp_path / "declared", declared, kv_tokens=2_000_000)
    row = found.row("KV tokens")
    assert row.word is Word.NOTE
    assert "inside the declared cost of -100,000 tokens" in row.reason
    assert found.verdict.exit_code == ExitCode.PASS
    more = judged(tmp_path / "more", declared, kv_tokens=1_900_000)
    assert more.row("KV tokens").word is Word.FAIL
    assert more.row("claim kv_tokens_min_change").word is Word.FAIL
    assert more.verdict.exit_code == ExitCode.FAIL


def test_kv_tokens_that_nobody_saw_show_nothing(tmp_path: Path) -> None:
    found = judged(tmp_path, claiming("kv_tokens_min_change", change_pct=-1.0), kv_tokens=None)
    row = found.row("claim kv_tokens_min_change")
    assert (row.word, row.reason[:9]) == (Word.INCONCLUSIVE, "NOT SHOWN")


# --- memory ------------------------------------------------------------------------------------------


def memory_row(root: Path, stack: Stack, control: float | None, candidate: float | None) -> Row:
    case = read_case(Session(root, candidate=stack).build())

    def lowest(launch: LaunchEvidence) -> float | None:
        assert launch.record is not None
        return control if launch.record.launch.arm is Arm.CONTROL else candidate

    [row] = claims.rows(case, lowest)
    return row


@pytest.mark.parametrize(
    ("candidate", "expected", "outcome"),
    [
        (600.0, Word.PASS, "HELD"),
        (512.0, Word.PASS, "HELD"),
        (511.0, Word.FAIL, "REFUTED"),
        (None, Word.INCONCLUSIVE, "NOT SHOWN"),
    ],
)
def test_free_memory_is_held_against_a_floor(
    tmp_path: Path, candidate: float | None, expected: Word, outcome: str
) -> None:
    row = memory_row(tmp_path, claiming("free_mib_min", mib=512.0), None, candidate)
    assert row.word is expected
    assert row.reason.startswith(f"{outcome}: mtp1 engine cold: ")


@pytest.mark.parametrize(
    ("control", "candidate", "expected"),
    [
        (300.0, 500.0, Word.PASS),
        (300.0, 499.0, Word.FAIL),
        (None, 500.0, Word.INCONCLUSIVE),
        (300.0, None, Word.INCONCLUSIVE),
    ],
)
def test_free_memory_is_held_against_the_controls(
    tmp_path: Path, control: float | None, candidate: float | None, expected: Word
) -> None:
    row = memory_row(tmp_path, claiming("free_mib_min_change", change_mib=200.0), control, candidate)
    assert row.word is expected
    if expected is Word.PASS:
        assert row.reason == "HELD: mtp1 engine cold: lowest free +200 MiB, declared at least +200"
        assert (row.control, row.candidate, row.unit) == ("300", "500", "MiB")


# --- cold start --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "start_s", "expected"),
    [
        ({"change_s": 5.0}, 12.0, Word.PASS),
        ({"change_s": 5.0}, 14.9, Word.INCONCLUSIVE),  # one pair, and nearer to the bound than 5 % of 10 s
        ({"change_s": 5.0}, 17.0, Word.FAIL),
        ({"change_pct": 50.0}, 12.0, Word.PASS),
        ({"change_pct": 50.0}, 17.0, Word.FAIL),
    ],
)
def test_a_cold_start_may_take_as_much_longer_as_was_declared(
    tmp_path: Path, bound: dict[str, object], start_s: float, expected: Word
) -> None:
    stack = claiming("cold_start_max_change", **bound)
    row = judged(tmp_path, stack, WARM_TOO, where=COLD, start_s=start_s).row("claim cold_start_max_change")
    assert row.word is expected
    assert "one pair, so the margin of 5 % must lie between" in row.reason


def test_a_cold_start_needs_equal_caches(tmp_path: Path) -> None:
    stack = claiming("cold_start_max_change", change_s=5.0)
    row = judged(tmp_path, stack, files_at_start=5, compiled="hit").row("claim cold_start_max_change")
    assert (row.word, row.reason[:9]) == (Word.INCONCLUSIVE, "NOT SHOWN")


# --- throughput --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "speed", "expected"),
    [
        ("prefill", 1.10, Word.PASS),
        ("prefill", 1.02, Word.FAIL),
        ("steps", 1.10, Word.PASS),
        ("steps", 1.0, Word.FAIL),
        ("decode", 1.10, Word.PASS),
    ],
)
def test_a_rate_must_lie_beyond_the_bound_with_its_whole_interval(
    tmp_path: Path, metric: str, speed: float, expected: Word
) -> None:
    stack = claiming("throughput_min_change", metric=metric, change_pct=5.0)
    row = judged(tmp_path, stack, FOUR, speed=speed).row("claim throughput_min_change")
    assert row.word is expected
    assert "90 % interval" in row.reason
    assert row.reason.count("declared at least +5 %, 4 pairs") == 2, "both contexts"


def test_a_claim_for_one_context_is_judged_there_and_one_pair_shows_nothing(tmp_path: Path) -> None:
    stack = claiming("throughput_min_change", metric="prefill", context_tokens=48, change_pct=5.0)
    row = judged(tmp_path / "four", stack, FOUR, speed=1.1).row("claim throughput_min_change")
    assert row.word is Word.PASS
    assert "warm 96" not in row.reason
    row = judged(tmp_path / "one", stack, WARM_TOO, speed=1.1).row("claim throughput_min_change")
    assert row.word is Word.INCONCLUSIVE
    assert "one pair shows no spread" in row.reason


def test_a_session_without_the_cells_of_a_claim_shows_nothing(tmp_path: Path) -> None:
    stack = claiming("throughput_min_change", metric="prefill", change_pct=5.0)
    row = judged(tmp_path, stack).row("claim throughput_min_change")
    assert row.reason == "NOT SHOWN: the session has no cell that could show it"


def test_a_claim_about_late_kernels_is_judged_with_them(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path, candidate=claiming("late_jit_removed", kernels=["k"])).build())
    assert not list(claims.rows(case))
