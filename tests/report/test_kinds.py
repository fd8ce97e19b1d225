"""The table of request kinds says whose memory its figures are of."""

from __future__ import annotations

from pathlib import Path

from harness.judge.case import Case
from harness.records import Verdict
from harness.report.kinds import memory_of
from tests.judge.gpus import seen_case


def test_where_gpus_were_watched_the_memory_is_theirs(sound: tuple[Case, Verdict], tmp_path: Path) -> None:
    """Five launches on an H200 stood there with the host's memory, and figures of the GPU."""
    assert memory_of(seen_case(tmp_path, lambda _, seen: seen)) == "of a GPU, the one that it took the most of"
    assert memory_of(sound[0]) == "of the server's processes on the host"
