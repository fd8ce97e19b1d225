"""An eager engine on a GPU: its speed is the host's, too, and the report says so."""

from __future__ import annotations

import re
from pathlib import Path

from harness.judge.rows.eager import NAME
from harness.words import Step, Word

from .bundles import WARM_TOO, Session

ON_GPU: dict[str, object] = {"host.gpus": 1}
SAYS = ("Enforce eager set, disabling torch.compile and CUDAGraphs.",)


def test_it_is_noted_once_with_how_far_passes_differ(tmp_path: Path) -> None:
    row = Session(tmp_path, ON_GPU | WARM_TOO).both(said_at_start=SAYS).judge().row(NAME)
    assert (row.word, row.control, row.candidate, row.unit) == (Word.NOTE, "2 of 2", "2 of 2", "launches")
    assert "every kernel" in row.reason
    assert re.search(r"decode passes of one warm launch differ by up to \d+\.\d %; judge speed without", row.reason)
    assert len(row.sources) == 4


def test_one_arm_is_enough_and_is_told_apart(tmp_path: Path) -> None:
    row = Session(tmp_path, ON_GPU).candidate(said_at_start=SAYS).judge().row(NAME)
    assert (row.control, row.candidate) == ("0 of 1", "1 of 1")
    assert all("candidate" in source for source in row.sources)


def test_a_cold_launchs_passes_differ_for_other_reasons(tmp_path: Path) -> None:
    row = Session(tmp_path, ON_GPU).both(said_at_start=SAYS).judge().row(NAME)
    assert "differ" not in row.reason


def test_what_says_nothing_or_has_no_gpu_is_not_noted(tmp_path: Path) -> None:
    assert not Session(tmp_path / "graphs", ON_GPU).judge().rows(NAME)
    assert not Session(tmp_path / "cpu").both(said_at_start=SAYS).judge().rows(NAME)


def test_a_launch_without_two_passes_tells_no_difference(tmp_path: Path) -> None:
    row = Session(tmp_path, ON_GPU).both(said_at_start=SAYS, course=(Step.FIRST_PROMPT,)).judge().row(NAME)
    assert row.reason.endswith("run at its speed, too; judge speed without enforce-eager")
