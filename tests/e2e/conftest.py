"""Fixtures that sessions of several modules share."""

from __future__ import annotations

from pathlib import Path

import pytest

from .gpus import GpuBench


@pytest.fixture
def bench(tmp_path: Path) -> GpuBench:
    """A host with one GPU, that of the fake NVML."""
    return GpuBench(tmp_path)
