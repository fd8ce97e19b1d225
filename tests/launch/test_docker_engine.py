"""An engine that is not there, must not be used, or goes away in mid-run: said clearly, and nothing is lost."""

from __future__ import annotations

import ast
import socket
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from harness.doctor import examine
from harness.errors import SetupFailure
from harness.launch.docker.engine import connect
from harness.launch.launcher import LaunchFailed
from harness.paths import PROJECT
from harness.records import ENGINE_STAGE
from tests.containers.bench import Bench
from tests.containers.daemon import Daemon, second_engine
from tests.containers.waiting import until


def test_one_module_touches_the_sdk() -> None:
    importing = []
    for path in (PROJECT / "harness").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "docker" for name in names):
                importing.append(path.relative_to(PROJECT).as_posix())
    assert set(importing) == {"harness/launch/docker/engine.py"}


def _refuse(*_: object) -> None:
    raise PermissionError


class TestNoEngine:
    def test_no_socket(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        with pytest.raises(
            SetupFailure, match=r"no Docker engine: .*/docker.sock does not exist; install and start one"
        ):
            connect()

    def test_a_socket_that_nobody_listens_on(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        with socket.socket(socket.AF_UNIX) as abandoned:
            abandoned.bind(f"{tmp_path}/docker.sock")
        with pytest.raises(SetupFailure, match=r"does not answer .* is dockerd running"):
            connect()

    def test_no_permission(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        monkeypatch.setattr(socket.socket, "connect", _refuse)  # tests run as root, who may do anything
        with pytest.raises(
            SetupFailure, match=r"no permission to use the Docker engine at .*add this user to the group"
        ):
            connect()

    @pytest.mark.parametrize("address", ["tcp://192.0.2.1:2375", "ssh://user@192.0.2.1"])
    def test_an_engine_of_another_host(self, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(SetupFailure, match="the engine must be this host's own"):
            connect()

    def test_the_doctor_says_why(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        [finding] = [f for f in examine() if f.subject == "Docker"]
        assert finding.state == "note"
        assert "does not exist" in finding.text


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_the_doctor_names_both_versions(client: docker.DockerClient) -> None:
    [finding] = [f for f in examine() if f.subject == "Docker"]
    assert finding.state == "ok"
    assert f"engine {client.version()['Version']} answers" in finding.text
    assert f"client docker-py {docker.__version__}" in finding.text


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestEngineThatGoesAway:
    @pytest.fixture
    def daemon(self) -> Iterator[Daemon]:
        with second_engine() as daemon:
            yield daemon

    @pytest.fixture
    def bench(self, daemon: Daemon, reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
        monkeypatch.setenv("DOCKER_HOST", daemon.address)
        client = docker.DockerClient(base_url=daemon.address)
        name, _, digest = reference.partition("@")
        client.api.pull(name, digest)
        bench = Bench(reference, tmp_path)
        yield bench
        bench.close()
        client.close()

    def test_it_is_said_and_no_evidence_is_lost(self, bench: Bench, daemon: Daemon) -> None:
        script = "import itertools, time\nfor n in itertools.count(): print(n, flush=True); time.sleep(0.01)"
        running = bench.start(script)
        until(lambda: running.log.count(b"\n") > 50)
        daemon.end()
        with pytest.raises(LaunchFailed, match=r"the Docker engine at unix://.* does not answer") as caught:
            until(running.server.ended)
        assert caught.value.stage == ENGINE_STAGE
        exit_ = running.stop()
        assert (exit_.code, exit_.signal, exit_.asked) == (None, None, False)
        assert "start it again, and the next session removes what it still holds" in exit_.how
        numbers = running.log.split()
        assert numbers == [str(n).encode() for n in range(len(numbers))]
        assert running.server.log_digest()[1] == len(running.log)
        assert running.description["State"]["Status"] == "running", "as it was last seen"
        facts = running.server.container()
        assert facts is not None
        assert facts.container_id == running.description["Id"]

    def test_a_launch_without_it_is_no_arms_fault(self, bench: Bench, daemon: Daemon) -> None:
        launcher, spec = bench.prepare("pass")
        daemon.end()
        with pytest.raises(LaunchFailed, match="does not answer") as caught:
            launcher.start(spec)
        assert caught.value.stage == ENGINE_STAGE
