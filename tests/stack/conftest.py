from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack.bench import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A small vLLM with pull requests, and a folder for stacks and locks."""
    monkeypatch.setenv("QUALIFY_LOCKS", str(tmp_path / "locks"))
    return Bench(tmp_path)
