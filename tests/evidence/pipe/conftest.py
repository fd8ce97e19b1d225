"""A bundle that was written through the pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.evidence import pipe
from harness.evidence.bundle import append_record, write_json, write_once, write_piece
from harness.evidence.stream import GrowingFile, growing_text, whole
from harness.records.statistics import Look

from .support import check


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bundle in which every kind of write has happened once."""
    root = tmp_path / "bundle"
    pipe.begin(root)
    write_json(root / "plan.json", {"a": 1})
    launch = root / "launches" / "001-a"
    with whole(launch / "host.parquet") as stream:
        stream.write(b"columns")
        stream.write(b", more")
    with GrowingFile(launch / "server.log") as log:
        log.write(b"\xff\x00one\r")
        log.write(b"two\n")
    with growing_text(launch / "gpu.jsonl") as events:
        events.write("{}\n")
    for name in ("one", "two", "three"):
        append_record(launch / "checks.jsonl", check(name))
    write_piece(launch / "001.prom", b"x 1\n")
    assert write_once(root / "prompts.json", Look(mode="mtp1", goes_on=False, inconclusive=()))
    return root
