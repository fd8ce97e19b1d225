"""Base images with a component in two copies, stacks over them, and a look into what was built."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import docker
from docker.errors import ImageNotFound

from harness.image.build import build_image
from harness.image.record import BuiltImage
from tests.containers.registry import push
from tests.image import buildkit
from tests.stack.bench import Bench
from tests.stack.origin import Changes, Entry

COPIES = ("/opt/vllm", "/venv/site-packages")
"""As `tests.stack.bench` installs its component."""
DESCRIBED: dict[str, Any] = {
    "Id": "sha256:" + "b" * 64,
    "Config": {"User": "vllm", "Env": ["A=1"], "Entrypoint": ["vllm"], "Labels": {"theirs": "1"}, "Cmd": None},
    "RootFS": {"Layers": ["one", "two"]},
}
"""A base image as an engine describes it, as far as it matters."""
PER_CONTAINER = (".dockerenv", "dev/console", "etc/hostname", "etc/hosts", "etc/resolv.conf")
"""What the engine makes for each container."""
RUN = uuid.uuid4().hex[:8]
"""Another test run may use the same engine at the same time."""


def installed(files: Mapping[str, str], copies: tuple[str, ...] = COPIES) -> Changes:
    """Files of the repository at every place where they are installed."""
    return {f"{copy}/{path}": content for copy in copies for path, content in files.items()}


def archive(files: Mapping[str, str | bytes | Entry | None]) -> io.BytesIO:
    """A tar of files with absolute paths, as COPY takes it."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for path, content in files.items():
            if content is None:
                continue
            entry = content if isinstance(content, Entry) else Entry("100644", content)
            data = entry.content if isinstance(entry.content, bytes) else entry.content.encode()
            member = tarfile.TarInfo(path.lstrip("/"))
            if entry.mode == "120000":
                member.type, member.linkname, data = tarfile.SYMTYPE, data.decode(), b""
            member.mode = 0o755 if entry.mode == "100755" else 0o644
            member.size = len(data)
            member.mtime = 1_700_000_000
            tar.addfile(member, io.BytesIO(data))
    target.seek(0)
    return target


@dataclass
class Images:
    """Makes base images and builds from locks; removes all of them at the end."""

    client: docker.DockerClient
    base: str
    host: str
    made: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    """Further names, whose images are not only ours."""
    seen: dict[str, dict[str, tuple[Any, ...]]] = field(default_factory=dict)

    def make(self, files: Mapping[str, str | bytes | Entry | None], *lines: str, base: str = "") -> str:
        """An image with these files and then these lines of a Dockerfile, pushed; name@sha256:digest."""
        dockerfile = "\n".join([f"FROM {base or self.base}", "COPY root /", *lines])
        inner = {f"root/{path.lstrip('/')}": content for path, content in files.items()}
        context = archive({"Dockerfile": dockerfile, "root/qualify-test": RUN, **inner})
        name = f"{self.host}/qualify-test/{RUN}-{len(self.made)}"
        for line in self.client.api.build(fileobj=context, custom_context=True, tag=name, rm=True, decode=True):
            assert "error" not in line, line
        self.made.append(self.inspect(name)["Id"])
        return push(self.client, name, name, "latest")

    def build(self, lock: Path, log: Path, builder: str = "classic", told: list[str] | None = None) -> BuiltImage:
        """What `build_image` makes of a lock."""
        built = build_image(lock, log, tell=(told if told is not None else []).append, builder=builder)
        if built.builder:
            self.made.append(built.image_id)
        return built

    def run(self, image: str, code: str, *arguments: str, **options: Any) -> Any:
        """What a Python program prints in a container, read as JSON."""
        out: bytes = self.client.containers.run(
            image, ["-c", code, *arguments], entrypoint=["python3"], remove=True, network_mode="none", **options
        )
        return json.loads(out)

    def inspect(self, image: str) -> dict[str, Any]:
        """The engine's description."""
        return dict(self.client.images.get(image).attrs)

    def members(self, image: str) -> dict[str, tuple[Any, ...]]:
        """All that a container of the image sees: type, mode, owner, size, and for files the time."""
        if image not in self.seen:
            self.seen[image] = self._exported(image)
        return self.seen[image]

    def _exported(self, image: str) -> dict[str, tuple[Any, ...]]:
        container = self.client.containers.create(image, ["none"], entrypoint=["none"])
        try:
            stream = _Stream(cast("Iterator[bytes]", container.export(chunk_size=1 << 20)))
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                return {
                    m.name: (m.type, m.mode, m.uid, m.gid, m.size, m.linkname, m.mtime if m.isfile() else 0)
                    for m in tar
                    if m.name not in PER_CONTAINER
                }
        finally:
            container.remove(v=True)

    def close(self) -> None:
        """Remove what was made, the last first."""
        for name in self.named:
            self.client.images.remove(name)
        for name in reversed(dict.fromkeys(self.made)):
            with contextlib.suppress(ImageNotFound):  # the same content, made twice
                self.client.images.remove(name, force=True)


class _Stream(io.RawIOBase):
    """Chunks as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def stack_bench(root: Path, reference: str) -> Bench:
    """Stacks over a base image."""
    bench = Bench(root)
    bench.reference = reference
    return bench


def install_buildkit(folder: Path) -> Path:
    """A folder for PATH with the `docker` that `tests.image.buildkit` is."""
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {buildkit.__file__} "$@"\n', "utf-8")
    program.chmod(0o755)
    return folder
