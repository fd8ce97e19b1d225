"""What the tests of images stand on: one that is what a lock says, and a bench to make bases and build from locks."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from harness.image.base import Base
from harness.image.wanted import Wanted
from tests.containers.bench import Bench as Servers
from tests.containers.registry import push
from tests.image import toy
from tests.image.bench import DESCRIBED, Images, install_buildkit
from tests.image.folder import ImageFolder
from tests.stack.bench import Bench, lines, lock


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
def toy_servers(client: docker.DockerClient, built_toy: toy.Built, host: str, tmp_path: Path) -> Iterator[Servers]:
    """Starts servers from the toy's image, as the launcher does."""
    servers = Servers(push(client, built_toy.id, f"{host}/qualify-test/toy", "pinned"), tmp_path)
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for the fake server."""
    return forge(tmp_path_factory.mktemp("forged") / "model", Recipe())


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


@pytest.fixture
def wanted(bench: Bench) -> Wanted:
    """What is to be built, from a lock and a description."""
    head = bench.pull(1, {"vllm/a.py": lines(l5="five = 5")})
    outcome = lock(bench.stack(bench.head(1, head)))
    return Wanted(outcome.lock, Base(outcome.lock.base.reference, DESCRIBED), "c" * 64)


@pytest.fixture
def image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> ImageFolder:
    """A folder that stands for an image, and a payload."""
    return ImageFolder(tmp_path, capsys)
