from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.image.bench import Images, install_buildkit
from tests.stack.bench import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A small vLLM with pull requests, and a folder for stacks and locks."""
    monkeypatch.setenv("QUALIFY_LOCKS", str(tmp_path / "locks"))
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def images(client: docker.DockerClient, base: str, host: str) -> Iterator[Images]:
    """Makes base images and builds from locks."""
    images = Images(client, base, host)
    yield images
    images.close()


@pytest.fixture(scope="session")
def buildkit_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PATH on which `docker buildx` is the BuildKit inside the engine."""
    return f"{install_buildkit(tmp_path_factory.mktemp('bin'))}{os.pathsep}{os.environ['PATH']}"
