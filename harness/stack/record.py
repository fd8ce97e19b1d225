"""The lock: what a stack resolved to, as a record that names every byte that it stands for."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from harness.config.claims import Claim
from harness.records import Record

LOCK_SCHEMA: Literal[1] = 1
LOCK_FILE = "lock.json"
PATCH_FILE = "integration.patch"
COMPOSED_FILE = "composed.tar"


class Disposition(StrEnum):
    """What became of a head. One that conflicts is in no lock: it ends the locking."""

    MERGED = "merged"
    CHERRY_PICKED = "cherry-picked"
    ALREADY_IN_BASE = "already in base"
    SUPERSEDED = "superseded"
    LEFT_OUT = "left out"


class LockedBase(Record):
    """The image that the composed files go onto."""

    reference: str
    digest: str
    release: str


class LockedPatch(Record):
    """A patch file that was applied, named without its folder: that differs between machines."""

    file: str
    sha256: str


class LockedHead(Record):
    """A pull request as it was found, and what became of it."""

    pr: int
    ref: str
    title: str
    strategy: str
    expected: str
    """Head that the stack names, as many digits as it gives."""
    head: str | None
    """Full head; None for one that was not asked for, because it is superseded or left out."""
    moved: bool
    """True when the head is not the expected one and `--update` accepted that."""
    disposition: Disposition
    replaces: int | None
    note: str
    """Why, where the disposition alone does not say."""
    tree: str | None
    """Git tree after this head, or None where it was not put onto anything."""


class LockedFile(Record):
    """A file that differs between the base image's tree and the composed one."""

    path: str
    mode_before: str | None
    """Git mode (100644, 100755, 120000 for a symbolic link), or None where the file is new."""
    mode_after: str | None
    """None where the file is gone."""
    sha256_before: str | None
    sha256_after: str | None
    copies: tuple[str, ...]
    """Every path in the image at which it is installed; empty for tests and the like."""


class LockedComponent(Record):
    """One source tree, before and after."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9\-]*$")]
    repository: str
    """Without credentials."""
    base_commit: str
    base_tree: str
    integration: LockedPatch | None
    tree_before: str
    """Tree that the base image holds: the base commit's, or the one that the integration patch gives."""
    heads: tuple[LockedHead, ...]
    patches: tuple[LockedPatch, ...]
    tree: str
    """Tree that the patched image is to hold."""
    packages: tuple[str, ...]
    install: tuple[str, ...]
    source: str | None = None
    """Folder of the image that holds the repository, where a build command is to run."""
    build_command: str = ""
    """'' where the changed files are overlaid."""
    patch_sha256: str
    """Of NAME/integration.patch beside the lock: the whole difference from `tree_before` to `tree`."""
    composed_sha256: str
    """Of NAME/composed.tar beside the lock: every changed file as it is in `tree`."""
    files: tuple[LockedFile, ...]

    @property
    def patch_file(self) -> str:
        """Place of the patch, from the lock's folder."""
        return f"{self.name}/{PATCH_FILE}"

    @property
    def composed_file(self) -> str:
        """Place of the archive, from the lock's folder."""
        return f"{self.name}/{COMPOSED_FILE}"

    @property
    def installed(self) -> tuple[LockedFile, ...]:
        """Files that the image's copies must get."""
        return tuple(file for file in self.files if file.copies)

    @property
    def not_installed(self) -> tuple[LockedFile, ...]:
        """Files that only the source checks need, as tests."""
        return tuple(file for file in self.files if not file.copies)


class StackLock(Record):
    """What a stack resolved to (lock.json). The same inputs give the same bytes on every machine."""

    schema_version: Literal[1] = LOCK_SCHEMA
    stack: str
    without: tuple[str, ...]
    """Heads that were left out on purpose, as component#number."""
    base: LockedBase
    build_mode: Literal["overlay", "source"]
    build_network: Literal["none", "default"] = "none"
    build_installs: tuple[str, ...] = ()
    components: tuple[LockedComponent, ...]
    claims: tuple[Claim, ...]
    inputs_sha256: str
    """Over what the stack says about all this: a lock with another one is out of date."""
    sha256: str = ""
    """Over the canonical bytes of everything above."""

    def sealed(self) -> StackLock:
        """The lock with its own hash."""
        return self.model_copy(update={"sha256": self.computed_sha256()})

    def computed_sha256(self) -> str:
        """Hash over the canonical bytes of everything but the hash itself."""
        return canonical_sha256(self.model_dump(mode="json", exclude={"sha256"}))

    def to_bytes(self) -> bytes:
        """The file's content."""
        return (json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n").encode()


def canonical_sha256(tree: object) -> str:
    """Hash over the canonical bytes of a JSON value: sorted keys, no spaces, ASCII only."""
    return hashlib.sha256(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
