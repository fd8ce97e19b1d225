"""A harness that was killed is cleaned up after: its containers and networks, found by label, and nothing else."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound

from harness.launch.docker.cleaning import clean_up
from harness.launch.docker.engine import Engine
from harness.launch.docker.labels import new_labels
from harness.paths import PROJECT
from tests.containers.bench import Bench

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

HARNESS = """
import sys, time
from pathlib import Path
from tests.containers.bench import Bench
running = Bench(sys.argv[1], Path(sys.argv[2])).start("import time; time.sleep(600)")
facts = running.server.container()
print(facts.container_id, flush=True)
time.sleep(600)
"""


@pytest.fixture
def killed(reference: str, tmp_path: Path) -> str:
    """Id of the running container of a harness that was killed."""
    work = tmp_path / "qualify-killed"
    process = subprocess.Popen(
        [sys.executable, "-c", HARNESS, reference, str(work)], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    assert process.stdout is not None
    container = process.stdout.readline().strip()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    return container


@pytest.fixture
def bystander(client: docker.DockerClient, reference: str) -> Iterator[str]:
    """A container that looks like ours by name and image, and carries other labels."""
    made = client.api.create_container(
        reference,
        ["sleep", "600"],
        entrypoint=[],
        name="qualify-bystander",
        labels={"qualify": "no", "somebody.marker": "else"},
    )
    client.api.start(made["Id"])
    yield made["Id"]
    with contextlib.suppress(NotFound):
        client.api.remove_container(made["Id"], force=True)


def test_its_container_and_network_are_removed_and_a_bystander_is_not(
    engine: Engine, client: docker.DockerClient, killed: str, bystander: str
) -> None:
    [network] = client.api.inspect_container(killed)["NetworkSettings"]["Networks"].values()
    assert clean_up(engine) == [
        f"001: container {killed[:12]} of a harness that is gone",
        f"001: network {network['NetworkID'][:12]} of a harness that is gone",
    ]
    for gone in (client.api.inspect_container, client.api.inspect_network):
        with pytest.raises(NotFound):
            gone(killed if gone == client.api.inspect_container else network["NetworkID"])
    assert client.api.inspect_container(bystander)["State"]["Running"]
    assert clean_up(engine) == []


def test_what_a_living_harness_runs_is_left_alone(engine: Engine, containers: Bench) -> None:
    running = containers.start("import time; time.sleep(600)")
    assert clean_up(engine) == []
    assert running.server.ended() is None


def test_a_network_alone_is_found_too(engine: Engine, client: docker.DockerClient) -> None:
    """Killed between the network and its container."""
    labels = new_labels("a-test", 0, "007-x", Path("/tmp/qualify-x")) | {"qualify.owner-started": "1"}
    engine.create_network("qualify-alone", labels)
    [line] = clean_up(engine)
    assert line.startswith("007-x: network ")
    assert not client.api.networks(filters={"label": "qualify.session=a-test"})


def test_its_work_folder_goes_too_and_no_other(engine: Engine, tmp_path: Path) -> None:
    for name in ("qualify-work", "my-thesis"):
        folder = tmp_path / name
        folder.mkdir()
        labels = new_labels("a-test", 0, "007-x", folder) | {"qualify.owner-started": "1"}
        engine.create({"Image": "qualify-test/base:bookworm-1", "Cmd": ["true"], "Labels": labels, "HostConfig": {}})
    assert len(clean_up(engine)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["my-thesis"]


def test_two_networks_are_made_at_once_without_meeting(engine: Engine, client: docker.DockerClient) -> None:
    """A subnet is looked for and then taken, and another session may be in between."""
    from concurrent.futures import ThreadPoolExecutor

    labels = new_labels("a-test", 0, "008-x", Path("/tmp/qualify-x"))
    names = [f"qualify-race-{n}" for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: engine.create_network(name, labels), names))
    subnets = [json.dumps(client.api.inspect_network(n)["IPAM"]["Config"][0]["Subnet"]) for n in names]
    for name in names:
        engine.remove_network(name)
    assert len(set(subnets)) == 6
