"""The harness's own image, built for real on a base that needs no registry."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from pathlib import Path

import docker
import pytest
from docker.errors import APIError, BuildError, ImageNotFound
from filelock import FileLock

from harness.paths import PROJECT

PYTHON = "qualify-test/python:bookworm-venv-1"
"""The tag names what is in it: change the one when the other changes."""
IMAGE = "qualify-test/harness:local"
LABELS = {"qualify-test": "harness"}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

PYTHON_DOCKERFILE = """\
FROM {base}
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
RUN apt-get update \\
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates git python3-venv \\
    && rm -rf /var/lib/apt/lists/*
COPY certificates /etc/ssl/certs/ca-certificates.crt
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
"""
"""Stands in for python:3.11-slim, and trusts what this machine trusts: packages may come through a proxy of its own."""


def harness_image(client: docker.DockerClient, base: str) -> str:
    """Name of the image, built as Dockerfile.harness says; a minute and a half on an engine that has no part of it."""
    with FileLock(Path(tempfile.gettempdir()) / "qualify-test-harness.lock"):
        try:
            _make_python(client, base)
            client.images.build(
                path=str(PROJECT),
                dockerfile="Dockerfile.harness",
                buildargs={"PYTHON_IMAGE": PYTHON},
                network_mode="host",
                tag=IMAGE,
                labels=LABELS,
                rm=True,
            )
        except BuildError as e:
            last = "".join(str(line.get("stream", "")) for line in e.build_log)[-800:]
            pytest.skip(f"the harness's image cannot be built here, where packages may be out of reach: {e}\n{last}")
        _drop_older(client)
    return IMAGE


def _make_python(client: docker.DockerClient, base: str) -> None:
    try:
        client.images.get(PYTHON)
    except ImageNotFound:
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as archive:
            for name, data in (
                ("Dockerfile", PYTHON_DOCKERFILE.format(base=base).encode()),
                ("certificates", CERTIFICATES.read_bytes()),
            ):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
        context.seek(0)
        client.images.build(fileobj=context, custom_context=True, network_mode="host", tag=PYTHON, rm=True)


def _drop_older(client: docker.DockerClient) -> None:
    """The image of an earlier version of the harness lost its name to this one."""
    for image in client.images.list(filters={"dangling": True, "label": "qualify-test=harness"}):
        with contextlib.suppress(APIError):  # another test run uses it
            client.images.remove(str(image.id))
