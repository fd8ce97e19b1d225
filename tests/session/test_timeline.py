"""Moments of a launch, on two clocks, as they come."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.records import Mark
from harness.session.timeline import Timeline
from harness.words import Step


def marks(file: Path) -> list[Mark]:
    return [Mark.model_validate_json(line) for line in file.read_text("utf-8").splitlines()]


def test_a_step_is_closed_however_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "timeline.jsonl"
    timeline = Timeline(file)
    with pytest.raises(OSError, match="gone"), timeline.step(Step.PREFILL, 2048):
        raise OSError("gone")
    assert [(m.mark, m.step, m.context_tokens) for m in marks(file)] == [
        ("step begins", Step.PREFILL, 2048),
        ("step ends", Step.PREFILL, 2048),
    ]
    assert timeline.last_step is Step.PREFILL


def test_a_moment_that_is_past_has_the_wall_clock_of_then(tmp_path: Path) -> None:
    file = tmp_path / "timeline.jsonl"
    then_ns = time.monotonic_ns() - 60_000_000_000
    before = datetime.now(UTC)
    Timeline(file).mark("process started", "launcher", mono_ns=then_ns)
    [mark] = marks(file)
    assert mark.mono_ns == then_ns
    ago = (before - datetime.fromisoformat(mark.wall)).total_seconds()
    assert 59 < ago <= 60.1
