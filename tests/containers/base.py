"""The image of the tests: Debian with Python and a small C compiler, made once per machine: none can be fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound
from filelock import FileLock

REPOSITORY, TAG = "qualify-test/base", "bookworm-2"
"""The tag names what is in it: change the one when the other changes."""
SUITE = "bookworm"
UNNEEDED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")

CHANGES = (
    "ENV PATH=/opt/image/bin:/usr/local/bin:/usr/bin:/bin",
    # What images of this field say about GPUs, and what no image should hold: neither may reach a server's evidence.
    "ENV NVIDIA_VISIBLE_DEVICES=all",
    "ENV REGISTRY_PASSWORD=planted-in-the-image",
    "LABEL org.opencontainers.image.version=1.2.3",
    "VOLUME /var/scratch",
    'HEALTHCHECK CMD ["/bin/false"]',
    'ENTRYPOINT ["/bin/false"]',
    "WORKDIR /nowhere",
)
"""An image that would spoil a measurement in every way that an image can."""


def base_image(client: docker.DockerClient) -> str:
    """The image's id; the image is made where the engine does not have it yet (about a minute and a half)."""
    with FileLock(Path(tempfile.gettempdir()) / "qualify-test-base.lock"):
        try:
            return str(client.images.get(f"{REPOSITORY}:{TAG}").id)
        except ImageNotFound:
            return _make(client)


def _make(client: docker.DockerClient) -> str:
    if shutil.which("debootstrap") is None or os.getuid() != 0:
        pytest.skip("the test image is missing, and making it takes root and debootstrap")
    with tempfile.TemporaryDirectory(prefix="qualify-test-base-") as folder:
        root = Path(folder) / "root"
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=python3,tcc", SUITE, str(root)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"the test image is missing, and debootstrap cannot make it: {done.stdout[-400:]}")
        for name in UNNEEDED:
            shutil.rmtree(root / name, ignore_errors=True)
        archive = Path(folder) / "root.tar"
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
        client.api.import_image_from_file(str(archive), repository=REPOSITORY, tag=TAG, changes=list(CHANGES))
    return str(client.images.get(f"{REPOSITORY}:{TAG}").id)
