"""Fixtures that sessions of several modules share."""

from __future__ import annotations

from pathlib import Path

import pytest

from .gpus import GpuBench
from .sessions import fake_profile


@pytest.fixture
def bench(tmp_path: Path) -> GpuBench:
    """A host with one GPU, that of the fake NVML."""
    return GpuBench(tmp_path)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The fake server's."""
    return str(fake_profile(tmp_path))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Where sessions go."""
    return tmp_path / "results"
