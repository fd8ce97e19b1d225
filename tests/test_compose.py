"""compose.yaml: what it asks for, and that a session really runs from inside such a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import requests
import yaml  # type: ignore[import-untyped]
from docker.errors import ContainerError

from harness.evidence.bundle import Bundle
from harness.judge.case import read_case
from harness.launch.ports import free_port
from harness.paths import PROJECT
from harness.words import Word
from tests.containers.harness_image import harness_image
from tests.containers.waiting import until_answers
from tests.e2e.test_docker_sessions import docker_profile

OWNER, GROUP = 12345, 54321
STATUS = ("sh", "-c", "id -u; id -G; cat /proc/self/status")


def compose() -> list[str]:
    """Whichever implementation this machine has."""
    plugin = ["docker", "compose"]
    if shutil.which("docker") and not subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode:
        return plugin
    if program := shutil.which("docker-compose"):
        return [program]
    pytest.skip("no implementation of compose is installed")


def run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
    return subprocess.run(
        [*compose(), *arguments],
        cwd=PROJECT,
        env={**kept, "PWD": str(PROJECT), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def config(**environment: str) -> dict[str, Any]:
    """The services as compose understands them; mounts as (source, target, written to)."""
    done = run("--profile", "harness", "--profile", "gpu", "config", environment=environment)
    assert (done.returncode, done.stderr) == (0, ""), "neither errors nor warnings"
    services: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    for service in services.values():
        service["volumes"] = {_mount(m) for m in service["volumes"]}
    return services


def _mount(mount: str | dict[str, Any]) -> tuple[str, str, bool]:
    if isinstance(mount, str):  # 1.29 keeps the short form
        source, target, mode = mount.split(":")
        return source, target, mode != "ro"
    return mount["source"], mount["target"], not mount.get("read_only", False)


class TestFile:
    def test_the_services(self) -> None:
        assert set(config()) == {"harness", "harness-gpu", "results"}

    @pytest.mark.parametrize("name", ["harness", "harness-gpu"])
    def test_the_harness_sees_what_the_engine_is_told_by_its_path_on_the_host(self, name: str) -> None:
        service = config()[name]
        assert service["volumes"] == {
            ("/var/run/docker.sock", "/var/run/docker.sock", True),
            (str(PROJECT), str(PROJECT), True),
            ("/tmp", "/tmp", True),
            ("/srv", "/srv", False),
        }
        assert service["working_dir"] == service["environment"]["QUALIFY_PROJECT"] == str(PROJECT)

    def test_it_stands_in_the_hosts_network_and_among_its_processes(self) -> None:
        service = config()["harness"]
        assert (service["network_mode"], service["pid"]) == ("host", "host")
        assert not {"privileged", "cap_add", "devices", "ports"} & set(service)

    def test_only_one_service_asks_for_gpus(self) -> None:
        services = config()
        assert [name for name, s in services.items() if "deploy" in s] == ["harness-gpu"]
        [device] = services["harness-gpu"]["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["count"] in ("all", -1)) == ("nvidia", True)

    def test_results_are_shown_on_the_loopback_address_and_cannot_be_written(self) -> None:
        service = config(QUALIFY_RESULTS_PORT="9999")["results"]
        assert "127.0.0.1" in str(service["ports"])
        assert "9999" in str(service["ports"])
        assert service["volumes"] == {(f"{PROJECT}/results", "/results", False)}
        assert (service["read_only"], service["cap_drop"], service["user"]) == (True, ["ALL"], "65534:65534")

    def test_models_and_images_are_named_by_variables(self) -> None:
        service = config(
            QUALIFY_MODELS="/data/models", QUALIFY_HARNESS_IMAGE="mine:1", QUALIFY_PYTHON_IMAGE="python@sha256:0"
        )["harness"]
        assert ("/data/models", "/data/models", False) in service["volumes"]
        assert (service["image"], service["build"]["args"]) == ("mine:1", {"PYTHON_IMAGE": "python@sha256:0"})

    def test_up_alone_starts_no_harness(self) -> None:
        services = yaml.safe_load((PROJECT / "compose.yaml").read_text("utf-8"))["services"]
        assert [name for name, service in services.items() if "profiles" not in service] == ["results"]


@pytest.fixture(scope="module")
def image(client: docker.DockerClient, base: str) -> str:
    return harness_image(client, base)


@pytest.fixture(scope="module")
def names(image: str) -> Iterator[dict[str, str]]:
    """Environment under which compose finds the image, and meets nothing of another test run."""
    names = {"QUALIFY_HARNESS_IMAGE": image, "COMPOSE_PROJECT_NAME": f"qualify-test-{uuid.uuid4().hex[:8]}"}
    yield names
    run("down", "--remove-orphans", environment=names)


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestImage:
    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        """What the entry point looks at, as another user's."""
        (tmp_path / "requirements").mkdir()
        for name in ("pyproject.toml", "requirements/harness.lock"):
            shutil.copy(PROJECT / name, tmp_path / name)
        os.chown(tmp_path, OWNER, GROUP)
        return tmp_path

    def entered(self, client: docker.DockerClient, image: str, checkout: Path, *command: str) -> str:
        out = client.containers.run(
            image,
            list(command),
            environment={"QUALIFY_PROJECT": str(checkout)},
            volumes=[f"{checkout}:{checkout}", "/var/run/docker.sock:/var/run/docker.sock"],
            network_mode="none",
            remove=True,
            stderr=True,
        )
        assert isinstance(out, bytes)
        return out.decode()

    def test_it_runs_as_the_checkouts_owner_without_any_right_of_roots(
        self, client: docker.DockerClient, image: str, checkout: Path
    ) -> None:
        user, groups, status = self.entered(client, image, checkout, *STATUS).split("\n", 2)
        assert user == str(OWNER)
        assert groups.split() == [str(GROUP), str(Path("/var/run/docker.sock").stat().st_gid)]
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert {int(found[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
        assert found["NoNewPrivs"] == "1"

    def test_without_a_checkout_it_runs_as_nobody(self, client: docker.DockerClient, image: str) -> None:
        out = client.containers.run(image, ["id", "-u"], network_mode="none", remove=True)
        assert out == b"65534\n"

    def test_packages_of_another_lock_are_refused(
        self, client: docker.DockerClient, image: str, checkout: Path
    ) -> None:
        (checkout / "requirements" / "harness.lock").write_text("numpy==1\n", "utf-8")
        with pytest.raises(ContainerError, match=r"built from another requirements/harness.lock; run: docker compose"):
            self.entered(client, image, checkout, "true")

    def test_a_folder_that_is_no_checkout_is_refused(
        self, client: docker.DockerClient, image: str, tmp_path: Path
    ) -> None:
        with pytest.raises(ContainerError, match="holds no checkout; run compose in the checkout's own folder"):
            self.entered(client, image, tmp_path, "true")


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestHarness:
    def test_the_doctor_reaches_the_engine(self, names: dict[str, str]) -> None:
        done = run("run", "--rm", "-T", "harness", "qualify", "doctor", environment=names)
        assert f"ok    project                {PROJECT}" in done.stdout, done.stderr
        assert "ok    Docker                 engine " in done.stdout

    def test_a_session_from_inside_is_as_good_as_one_from_outside(
        self, names: dict[str, str], reference: str, tmp_path: Path
    ) -> None:
        """Servers are reached by their address, and seen among the host's processes; work folders are found."""
        results = tmp_path / "results"
        done = run(
            *("run", "--rm", "-T", "-v", f"{tmp_path}:{tmp_path}", "-e", f"QUALIFY_RESULTS={results}"),
            *("harness", "qualify", "run", "--profile", docker_profile(tmp_path, reference)),
            environment=names,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        bundle = Bundle((results / "latest").resolve())
        assert bundle.verdict().verdict is Word.PASS
        for launch in read_case(bundle).launches.values():
            assert launch.record is not None
            assert launch.record.container is not None
            assert launch.record.effective_argv == launch.record.argv
            assert launch.folder.host_samples_file.stat().st_size > 0
        origin = bundle.run().harness
        assert origin.commit is not None, "git is in the image, and trusts the checkout"

    def test_results_can_be_looked_at(self, names: dict[str, str]) -> None:
        port = str(free_port())
        environment = {**names, "QUALIFY_RESULTS_PORT": port}
        started = run("up", "-d", "results", environment=environment)
        assert started.returncode == 0, started.stderr
        try:
            until_answers(f"http://127.0.0.1:{port}/")
            with requests.Session() as session:
                session.trust_env = False
                at = f"http://127.0.0.1:{port}"
                assert session.get(f"{at}/.gitkeep", timeout=5).status_code == 200
                assert session.get(f"{at}/pyproject.toml", timeout=5).status_code == 404
                assert session.put(f"{at}/x", timeout=5).status_code == 501
        finally:
            run("rm", "--stop", "--force", "results", environment=environment)
