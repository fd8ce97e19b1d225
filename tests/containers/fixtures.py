"""Fixtures of every test that needs a Docker engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from harness.launch.docker.address import address, knock, why_not
from harness.launch.docker.engine import Engine, connect
from tests.containers.base import base_image
from tests.containers.bench import Bench
from tests.containers.registry import forget, push, registry


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    """The SDK's own client, for looking past the harness at what the engine really has."""
    try:
        knock()
    except OSError as e:
        pytest.skip(why_not(e))
    client = docker.DockerClient(base_url=address(), version="auto")
    yield client
    client.close()


@pytest.fixture(scope="session")
def engine(client: docker.DockerClient) -> Iterator[Engine]:
    """The harness's client."""
    del client
    engine = connect()
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def base(client: docker.DockerClient) -> str:
    """Id of the small image with Python inside."""
    return base_image(client)


@pytest.fixture(scope="session")
def host(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a registry on the loopback address."""
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host
        forget(client, host)


@pytest.fixture(scope="session")
def reference(client: docker.DockerClient, base: str, host: str) -> str:
    """The image, pinned: name@sha256:digest."""
    return push(client, base, f"{host}/qualify-test/base", "pinned")


@pytest.fixture
def bystander(client: docker.DockerClient, reference: str) -> Iterator[Container]:
    """A running container of the same image that is somebody else's."""
    made = client.containers.run(reference, ["600"], entrypoint=["sleep"], labels={"somebodys": "own"}, detach=True)
    yield made
    made.remove(force=True)


@pytest.fixture
def containers(reference: str, tmp_path: Path) -> Iterator[Bench]:
    """Starts servers in containers."""
    bench = Bench(reference, tmp_path)
    yield bench
    bench.close()
