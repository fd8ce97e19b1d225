"""A base image from what is on this machine: pinned by a registry, with a shell and Python, whatever is mounted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tools.visit import base, userland

SYSTEM = {"PATH": "/opt/nowhere/bin:/usr/local/bin:/usr/bin:/bin"}


def test_links_into_usr_stay_links_and_libraries_come_with_what_needs_them() -> None:
    members = userland.members()
    interpreter, stdlib = userland.python()
    assert len(set(members)) == len(members)
    assert str(interpreter).lstrip("/") in members
    assert f"{str(stdlib).lstrip('/')}/json/__init__.py" in members
    assert any("libc.so.6" in member for member in members)
    assert not any("__pycache__" in member or "site-packages" in member for member in members)
    for folder in filter(Path.is_dir, map(Path, userland.FILES)):  # seen: only the folders, and no nvcc was found
        assert {str(inner).lstrip("/") for inner in folder.iterdir()} <= set(members)
    for name in userland.MERGED:
        assert not [m for m in members if m.startswith(f"{name}/")] or not Path(f"/{name}").is_symlink()


def test_sbin_is_a_folder_of_its_own_for_the_engines_init(tmp_path: Path) -> None:
    names = base.empty_folders(tmp_path)
    assert not (tmp_path / "sbin").is_symlink()
    assert {"sbin/ldconfig", "sbin/ldconfig.real"} <= set(names)
    assert base.empty_folders(tmp_path) == names, "a second visit to the same folder"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, client: docker.DockerClient) -> Iterator[str]:
    """The image in a registry of its own, pulled by the digest that this registry gave it."""
    if shutil.which("docker-registry") is None:
        pytest.skip("docker-registry is not installed")
    folder = tmp_path_factory.mktemp("base")
    (folder / "site" / "package").mkdir(parents=True)
    (folder / "site" / "package" / "__init__.py").write_text("where = __file__\n", "utf-8")
    blobs = [
        base.layer(folder / "folders.tar", base.empty_folders(folder / "empty"), root=folder / "empty"),
        base.layer(folder / "userland.tar", userland.members()),
        base.layer(folder / "site.tar", ["."], root=folder / "site", below=base.SITE),
    ]
    config = folder / "config.json"
    config.write_text(json.dumps(base.image_config(blobs, SYSTEM, "1.2.3")), "utf-8")
    with base.registry(folder / "registry") as host:
        named = base.push(host, "qualify-test/visit", blobs, config)
        client.images.pull(named.partition("@")[0], tag=named.partition("@")[2])
        yield named
        client.images.remove(named)


def ran(client: docker.DockerClient, reference: str, *command: str, **how: Any) -> str:
    out = client.containers.run(reference, list(command), remove=True, network_mode="none", init=True, **how)
    return str(out.decode())


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestImage:
    def test_it_has_the_digest_and_the_version_that_a_profile_can_pin(
        self, client: docker.DockerClient, reference: str
    ) -> None:
        found = client.images.get(reference)
        assert found.attrs["RepoDigests"] == [reference]
        assert found.labels == {"org.opencontainers.image.version": "1.2.3"}

    def test_a_shell_python_and_the_package_work_in_it(self, client: docker.DockerClient, reference: str) -> None:
        program = "import hashlib, json, tarfile, package; print(package.where)"
        told = ran(client, reference, "sh", "-c", f"python3 -c '{program}'", environment={"PYTHONPATH": base.SITE})
        assert told.strip() == f"{base.SITE}/package/__init__.py"

    def test_with_this_machines_usr_over_it_the_engines_init_is_still_found(
        self, client: docker.DockerClient, reference: str
    ) -> None:
        """Seen: where /sbin is a link into /usr, the mount hides docker-init, and nothing starts."""
        volumes = {os.path.realpath("/usr"): {"bind": "/usr", "mode": "ro"}}
        told = ran(client, reference, "sh", "-c", "touch /usr/x 2>&1; /sbin/ldconfig -p | head -n 1", volumes=volumes)
        assert "Read-only file system" in told
        assert "libs found" in told
