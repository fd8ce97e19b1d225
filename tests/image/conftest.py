"""One image for all tests that look at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from tests.image import toy


@pytest.fixture(scope="package")
def built(client: docker.DockerClient, base: str) -> Iterator[toy.Built]:
    """An image that is what the toy's lock says."""
    with toy.image(client, base, toy.files(), toy.labels(toy.lock())) as built:
        yield built


@pytest.fixture
def running(client: docker.DockerClient, built: toy.Built) -> Iterator[Container]:
    """A container of it that a test may change."""
    with toy.container(client, built.tag) as made:
        yield made


@pytest.fixture(scope="package")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for the fake server."""
    return forge(tmp_path_factory.mktemp("forged") / "model", Recipe())
