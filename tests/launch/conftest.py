"""A bench to start servers on, and a model for the fake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from tests.launch.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture(scope="package")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("forged") / "model", Recipe())
