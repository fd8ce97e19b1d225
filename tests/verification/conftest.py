"""One real session, made once: a fake server on fake GPUs, measured and traced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.gpus import GpuBench


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle. Whoever changes it changes it back."""
    bench = GpuBench(tmp_path_factory.mktemp("session"))
    bench.settings += ["course.contexts=[{prompt_tokens=64}]", "plan.trace=true"]
    done = bench.run()
    assert (done.bundle.root / "SHA256SUMS").is_file(), done.out
    return done.bundle.root
