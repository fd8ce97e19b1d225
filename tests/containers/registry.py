"""A real registry on the loopback address, so that images get the digest of a manifest."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from harness.launch.ports import free_port
from tests.containers.waiting import until_answers

CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run a registry that keeps its files in `folder`; yields host and port."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed")
    port = free_port()
    config = folder / "registry.yml"
    config.write_text(CONFIG.format(folder=folder / "data", port=port), "utf-8")
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log)
    try:
        until_answers(f"http://127.0.0.1:{port}/v2/")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def push(client: docker.DockerClient, image: str, name: str, tag: str) -> str:
    """Push an image under a name of the registry; returns name@sha256:digest."""
    client.api.tag(image, name, tag)
    lines = list(client.api.push(name, tag=tag, stream=True, decode=True))
    digests = [x["aux"]["Digest"] for x in lines if "Digest" in x.get("aux", {})]
    assert digests, lines
    return f"{name}@{digests[0]}"


def forget(client: docker.DockerClient, host: str) -> None:
    """Take away every name that a registry gave to an image; the images stay."""
    for image in client.images.list():
        for name in (*image.attrs["RepoTags"], *image.attrs["RepoDigests"]):
            if name.startswith(f"{host}/"):
                with contextlib.suppress(ImageNotFound):  # the last tag takes the digests with it
                    client.images.remove(name)
