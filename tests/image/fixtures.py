"""The toy's image and a container of it, for the tests that look at what runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from tests.containers.bench import Bench
from tests.containers.registry import push
from tests.image import toy


@pytest.fixture(scope="session")
def built_toy(client: docker.DockerClient, base: str) -> Iterator[toy.Built]:
    """An image that is what the toy's lock says."""
    with toy.image(client, base, toy.files(), toy.labels(toy.lock())) as built:
        yield built


@pytest.fixture(scope="session")
def small(client: docker.DockerClient) -> Iterator[toy.Built]:
    """An image to be saved: two megabytes that cannot be compressed, and nothing else."""
    content = {"/data": random.Random(1).randbytes(2 << 20)}  # filler
    with toy.image(client, "scratch", content, toy.labels(toy.small_lock())) as built:
        yield built


@pytest.fixture
def running_toy(client: docker.DockerClient, built_toy: toy.Built) -> Iterator[Container]:
    """A container of it that a test may change."""
    with toy.container(client, built_toy.tag) as made:
        yield made


@pytest.fixture
def toy_servers(client: docker.DockerClient, built_toy: toy.Built, host: str, tmp_path: Path) -> Iterator[Bench]:
    """Starts servers from the toy's image, as the launcher does."""
    bench = Bench(push(client, built_toy.id, f"{host}/qualify-test/toy", "pinned"), tmp_path)
    yield bench
    bench.close()


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for the fake server."""
    return forge(tmp_path_factory.mktemp("forged") / "model", Recipe())
