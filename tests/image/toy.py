"""An image with a package that is installed twice, the lock that it was made from, and containers of it."""

from __future__ import annotations

import hashlib
import io
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.models.containers import Container

from harness.image.names import BASE_DIGEST as BASE_DIGEST_LABEL
from harness.image.names import LOCK
from harness.stack.record import LockedBase, LockedComponent, LockedFile, StackLock

COMMAND = ("toy",)
OPT, DIST = "/opt/toy", "/usr/lib/python3/dist-packages"
ROOTS = (OPT, DIST)
"""Both are on sys.path, /opt/toy first: what is imported is the one, what was patched may be the other."""
THIRD = "/usr/local/lib/python3.11/dist-packages"

OLD = b"VALUE = 'old'\n"
NEW = b"VALUE = 'new'\n"
SCRIPT = """\
#!/usr/bin/python3
import sys
from harness.fakes.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
SLEEP = ["python3", "-c", "import time; time.sleep(600)"]
PATCH, COMPOSED = b"stands for the patch", b"stands for the files"
BASE_DIGEST = f"sha256:{'b' * 64}"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def changed(path: str, before: bytes | None, after: bytes | None, *, installed: bool = True) -> LockedFile:
    """A file as a lock has it."""
    return LockedFile(
        path=path,
        mode_before=None if before is None else "100644",
        mode_after=None if after is None else "100644",
        sha256_before=None if before is None else sha256(before),
        sha256_after=None if after is None else sha256(after),
        copies=tuple(f"{root}/{path}" for root in ROOTS) if installed else (),
    )


def lock(*more: LockedFile) -> StackLock:
    """The toy's: one file changed, one gone, a test that is not installed."""
    component = LockedComponent(
        name="toy",
        repository="https://example.org/toy.git",
        base_commit="1" * 40,
        base_tree="2" * 40,
        integration=None,
        tree_before="2" * 40,
        heads=(),
        patches=(),
        tree="3" * 40,
        packages=("toy",),
        install=ROOTS,
        patch_sha256=sha256(PATCH),
        composed_sha256=sha256(COMPOSED),
        files=(
            changed("tests/test_toy.py", None, b"", installed=False),
            changed("toy/gone.py", OLD, None),
            changed("toy/kernel.py", OLD, NEW),
            *more,
        ),
    )
    base = LockedBase(reference=f"127.0.0.1:1/toy@{BASE_DIGEST}", digest=BASE_DIGEST, release="")
    return StackLock(
        stack="toy",
        without=(),
        base=base,
        build_mode="overlay",
        components=(component,),
        claims=(),
        inputs_sha256="6" * 64,
    ).sealed()


def small_lock() -> StackLock:
    """Another one, whose image is too small to take time."""
    return lock().model_copy(update={"stack": "small"}).sealed()


def write_lock(folder: Path, of: StackLock) -> Path:
    """The lock as `qualify lock` leaves it."""
    (folder / "toy").mkdir(parents=True)
    (folder / "lock.json").write_bytes(of.to_bytes())
    for component in of.components:
        (folder / component.patch_file).write_bytes(PATCH)
        (folder / component.composed_file).write_bytes(COMPOSED)
    return folder


def files(**changes: bytes) -> dict[str, bytes]:
    """What goes into the image; every copy has what the lock says."""
    found = {"/usr/local/bin/toy": SCRIPT.encode(), f"{THIRD}/toy.pth": f"{OPT}\n".encode()}
    for root in ROOTS:
        found |= {f"{root}/toy/__init__.py": b"", f"{root}/toy/kernel.py": NEW}
    return found | changes


def labels(of: StackLock) -> dict[str, str]:
    return {LOCK: of.sha256, BASE_DIGEST_LABEL: of.base.digest}


@dataclass(frozen=True)
class Built:
    """An image and the name that it was given."""

    id: str
    tag: str


@contextmanager
def image(
    client: docker.DockerClient, base: str, content: Mapping[str, bytes], given: Mapping[str, str]
) -> Iterator[Built]:
    """Build an image; it is removed at the end."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        _add(archive, "Dockerfile", f"FROM {base}\nCOPY root/ /\n".encode())
        for path, data in content.items():
            _add(archive, f"root{path}", data)
    context.seek(0)
    tag = f"qualify-test/toy:{uuid.uuid4().hex[:12]}"
    made, _ = client.images.build(fileobj=context, custom_context=True, tag=tag, labels=dict(given), rm=True)
    try:
        yield Built(str(made.id), tag)
    finally:
        client.images.remove(tag)  # the image goes with its last name: equal ones are one image


@contextmanager
def container(client: docker.DockerClient, of: str, **how: object) -> Iterator[Container]:
    """A running container that does nothing."""
    settings: dict[str, object] = {"entrypoint": SLEEP, "init": True, "network_mode": "none", "working_dir": "/", **how}
    made = client.containers.run(of, detach=True, **settings)  # type: ignore[call-overload]
    try:
        yield made
    finally:
        made.remove(force=True, v=True)


def change(where: Container, program: str) -> str:
    """Run a few lines of Python in a container; returns what they print."""
    code, out = where.exec_run(["python3", "-c", program])
    assert code == 0, out
    assert isinstance(out, bytes)
    return out.decode().strip()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o755
    archive.addfile(entry, io.BytesIO(data))
