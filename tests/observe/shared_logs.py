"""The project's collection of real logs: beside the checkout, never in it, and not everywhere there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from harness.paths import PROJECT

LOGS = PROJECT.parent / "shared" / "logs"

GOLDEN = Path(__file__).parent / "log"
"""Logs that this project made itself, as they stand in the collection too: these are everywhere."""

needs_logs = pytest.mark.skipif(
    not (LOGS / "INDEX.csv").is_file(), reason=f"the collection of real logs is not at {LOGS}"
)


def golden_index() -> list[dict[str, str]]:
    """The collection's rows of the logs that come with the tests."""
    with (GOLDEN / "golden" / "INDEX.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def index() -> list[dict[str, str]]:
    """A row per file of the collection, with what its log really says."""
    if not (LOGS / "INDEX.csv").is_file():
        return []
    with (LOGS / "INDEX.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def log_bytes(name: str) -> bytes:
    """A log as its server wrote it: the source that stands before a public one is no part of it."""
    data = ((GOLDEN if name.startswith("golden/") else LOGS) / name).read_bytes()
    if not name.startswith("public/"):
        return data
    source, _, log = data.partition(b"\n")
    assert source.startswith(b"# source:")
    return log
