"""Bundles of tests need not survive a power cut, and no test meets the history of another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.history.importing import opened
from harness.history.index import Index


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of bundles, and an index of its own beside it."""
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setenv("QUALIFY_RESULTS", str(folder))
    monkeypatch.setenv("QUALIFY_HISTORY", str(tmp_path / "state" / "history.sqlite"))
    return folder


@pytest.fixture
def index(results: Path) -> Iterator[Index]:
    """An empty index."""
    assert not list(results.iterdir())
    with opened() as made:
        yield made
