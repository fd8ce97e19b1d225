"""A harness that was killed is cleaned up after: its containers and networks, found by label, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound
from docker.models.containers import Container

from harness.launch.docker.cleaning import clean_up
from harness.launch.docker.engine import Engine
from harness.launch.docker.labels import new_labels
from harness.paths import PROJECT
from tests.containers.bench import SESSION, Bench

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


def cleaned(engine: Engine, *ids: str) -> list[str]:
    """What a clean-up says of these; another test run's remains may be on the same engine."""
    return [line for line in clean_up(engine) if any(i[:12] in line for i in ids)]


def networks(client: docker.DockerClient) -> list[str]:
    return [str(n["Id"]) for n in client.api.networks(filters={"label": f"qualify.session={SESSION}"})]


def test_its_container_and_network_are_removed_and_a_bystander_is_not(
    engine: Engine, client: docker.DockerClient, killed: str, bystander: Container
) -> None:
    [attached] = client.api.inspect_container(killed)["NetworkSettings"]["Networks"].values()
    network = attached["NetworkID"]
    assert cleaned(engine, killed, network) == [
        f"001: container {killed[:12]} of a harness that is gone",
        f"001: network {network[:12]} of a harness that is gone",
    ]
    with pytest.raises(NotFound):
        client.api.inspect_container(killed)
    with pytest.raises(NotFound):
        client.api.inspect_network(network)
    bystander.reload()
    assert bystander.status == "running"
    assert cleaned(engine, killed, network) == []


def test_what_a_living_harness_runs_is_left_alone(engine: Engine, containers: Bench) -> None:
    running = containers.start("import time; time.sleep(600)")
    assert cleaned(engine, running.id) == []
    assert running.server.ended() is None


def test_a_network_alone_is_found_too(engine: Engine, client: docker.DockerClient) -> None:
    """Killed between the network and its container."""
    labels = new_labels(SESSION, 0, "007-x", Path("/tmp/qualify-x")) | {"qualify.owner-started": "1"}
    engine.create_network(f"qualify-alone-{SESSION}", labels)
    [network] = networks(client)
    [line] = cleaned(engine, network)
    assert line.startswith("007-x: network ")
    assert networks(client) == []


def test_its_work_folder_goes_too_and_no_other(engine: Engine, tmp_path: Path, base: str) -> None:
    made = []
    for name in ("qualify-work", "my-thesis"):
        folder = tmp_path / name
        folder.mkdir()
        labels = new_labels(SESSION, 0, "007-x", folder) | {"qualify.owner-started": "1"}
        made.append(engine.create({"Image": base, "Cmd": ["true"], "Labels": labels, "HostConfig": {}}))
    assert len(cleaned(engine, *made)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["my-thesis"]


def test_networks_that_are_made_at_once_do_not_meet(engine: Engine, client: docker.DockerClient) -> None:
    """A subnet is looked for and then taken, and another session may be in between."""
    labels = new_labels(SESSION, 0, "008-x", Path("/tmp/qualify-x"))
    names = [f"qualify-race-{n}-{SESSION}" for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: engine.create_network(name, labels), names))
    subnets = {client.api.inspect_network(name)["IPAM"]["Config"][0]["Subnet"] for name in names}
    for name in names:
        engine.remove_network(name)
    assert len(subnets) == 6
