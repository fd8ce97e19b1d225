"""Garbage end to end: a candidate that answers nonsense fails, however well it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.words import ExitCode, Word

from .sessions import fake_profile, run, stack


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ("stuck-at=3@3", "37 times in a row, from token 3 on"),
        ("null-logprobs@3", "a logprob that is no number, at token 0"),
        ("short-output@3", "an early stop (stop) after 39 of 40 tokens"),
    ],
)
def test_nonsense_of_the_candidate_fails(tmp_path: Path, faults: str, told: str) -> None:
    candidate = stack(tmp_path, "garbage", QUALIFY_FAKE_FAULTS=faults)
    arguments = ("--profile", str(fake_profile(tmp_path)), "--candidate", str(candidate), "-k", "identity")
    done = run(tmp_path / "results", *arguments)
    row = done.row("outputs make sense")
    assert row.word is Word.FAIL, done.out
    assert told in row.reason
    assert done.code == ExitCode.FAIL


def test_nonsense_of_both_arms_is_not_called_identical(tmp_path: Path) -> None:
    stuck = str(stack(tmp_path, "garbage", QUALIFY_FAKE_FAULTS="null-logprobs"))
    arguments = ("--profile", str(fake_profile(tmp_path)), "--control", stuck, "--candidate", stuck, "-k", "identity")
    done = run(tmp_path / "results", *arguments)
    assert done.row("outputs make sense").word is Word.VOID, done.out
    assert done.code == ExitCode.VOID
