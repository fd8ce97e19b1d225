"""What an image is expected to be, and what a running container turned out to be."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic import Field

from harness.image.names import LOCK
from harness.image.payload import is_built
from harness.records import Record
from harness.stack.changes import SYMLINK, is_compiled
from harness.stack.record import LockedComponent, StackLock

LINK = "symlink:"
"""Begins the SHA-256 of a symbolic link's target, as git hashes a link: by where it points."""


class ExpectedPackage(Record):
    """A patched package: where the lock says that it is installed, and which of its files were changed."""

    roots: tuple[str, ...]
    """Folders of the image that hold the package's folder; every one is a copy."""
    files: dict[str, str | None]
    """Path below such a folder -> SHA-256 (`symlink:` before that of a link's target), or None: to be absent."""


class ExpectedImage(Record):
    """What a container is to run. Tag, image id and manifest digest are three things, and never mixed up."""

    image_id: str
    """Digest of the image's configuration."""
    tag: str | None = None
    """Name that is to stand for that image and no other."""
    manifest_digest: str | None = None
    """Digest by which a registry names it; None for an image that was built here."""
    base_digest: str | None = None
    """Manifest digest of the image that it was built on, as its label says."""
    labels: dict[str, str] = Field(default_factory=dict)
    packages: dict[str, ExpectedPackage] = Field(default_factory=dict)
    """Import name -> files."""

    @property
    def files(self) -> dict[str, str | None]:
        """Path in the image -> SHA-256 (None: absent), of every copy that the lock lists."""
        return {
            posixpath.join(root, file): sha256
            for package in self.packages.values()
            for root in package.roots
            for file, sha256 in package.files.items()
        }


class FoundFile(Record):
    """A file inside the container, read while it ran."""

    sha256: str | None
    """None: there is none."""
    link_sha256: str | None
    """Of the target of a symbolic link; None for a file."""
    stale: str | None
    """A .pyc that Python would run, and whose code the source does not give."""
    shadows: tuple[str, ...]
    """What Python would import in its place."""


class FoundPackage(Record):
    """What the server's Python finds under an import name."""

    origin: str | None
    """`__file__` of the imported package."""
    error: str | None
    imported: tuple[str, ...]
    """Folders that hold the package as it is imported; more than one only for a namespace package."""
    on_path: tuple[str, ...]
    """Entries of sys.path that hold a copy, imported or not."""
    real: dict[str, str]
    """Folder -> the package in it, links resolved."""
    files: dict[str, FoundFile]


class Probed(Record):
    """What the probe reports; see `harness.image.probe`."""

    python: str
    """Executable, links resolved."""
    python_version: str
    path: tuple[str, ...]
    """sys.path as the server has it."""
    servers: tuple[str, ...]
    """Programs of the processes right below the container's first one."""
    packages: dict[str, FoundPackage]
    cpu_s: float
    """Processor time that the probe took, in seconds, the interpreter's own start included."""


class FoundImage(Record):
    """What was read back from a container while it ran. None: not asked, or no answer."""

    container_id: str
    image_id: str
    tag_image_id: str | None = None
    """Image for which the expected tag stands now."""
    repo_digests: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    restarts: int | None = None
    running: bool = True
    engine_command: tuple[str, ...] = ()
    """The command and, where it is a script, the interpreter in front of it."""
    probed: Probed | None = None
    served_models: tuple[str, ...] | None = None
    api_version: str | None = None
    """vLLM's version as `/version` says it."""
    log_version: str | None = None
    """The same as the log's banner says it."""


class Mismatch(Record):
    """One thing that is not what it should be."""

    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        """`what: expected X, found Y`."""
        return f"{self.what}: expected {self.expected}, found {self.found}"


class Verification(Record):
    """Expected, found, and every difference."""

    expected: ExpectedImage
    found: FoundImage
    mismatches: tuple[Mismatch, ...]


def expected_image(
    lock: StackLock, image_id: str, *, tag: str | None = None, labels: Mapping[str, str] | None = None
) -> ExpectedImage:
    """What a lock promises of its image: its files, and that it says what it was built from.

    Args:
        lock: the lock.
        image_id: the image that was built from it, or the base itself where it changes nothing.
        tag: name that is to stand for it.
        labels: more labels that it is to have.
    """
    packages: dict[str, ExpectedPackage] = {}
    for component in lock.components:
        packages |= _packages(component)
    own = is_built(lock)
    return ExpectedImage(
        image_id=image_id,
        tag=tag,
        manifest_digest=None if own else lock.base.digest,
        base_digest=lock.base.digest if own else None,
        labels={**({LOCK: lock.sha256} if own else {}), **(labels or {})},
        packages=packages,
    )


def _packages(component: LockedComponent) -> dict[str, ExpectedPackage]:
    files: dict[str, dict[str, str | None]] = {}
    for file in component.installed:
        if component.build_command and is_compiled(file.path):
            continue  # a build need not install it, and has been held against it where it did
        package = next(p for p in component.packages if file.path.startswith(f"{p}/"))
        name = PurePosixPath(package).name
        inside = file.path[len(package) - len(name) :]  # as `harness.stack.changes.copies` places it
        link = file.mode_after == SYMLINK and file.sha256_after is not None
        files.setdefault(name, {})[inside] = f"{LINK}{file.sha256_after}" if link else file.sha256_after
    return {name: ExpectedPackage(roots=component.install, files=found) for name, found in files.items()}
