"""What is at a path of the image, and what is to be there, in the words of git: mode and SHA-256."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE, PROGRAM, LINK, FOLDER, SPECIAL = "100644", "100755", "120000", "040000", "special"
READ_BYTES = 1 << 20


@dataclass(frozen=True)
class State:
    """A file's content and kind. Of the permissions only the executable bit counts, as in git."""

    mode: str
    sha256: str
    link: str = ""
    """Where a symbolic link points to."""

    def __str__(self) -> str:
        if self.mode == FOLDER:
            return "a folder"
        if self.mode == LINK:
            return f"a symbolic link{f' to {self.link}' if self.link else ''} with sha256 {self.sha256}"
        return f"sha256 {self.sha256} with mode {self.mode}" if self.sha256 else "neither file nor folder"

    @property
    def key(self) -> tuple[str, str]:
        """Kind and bytes: what two states have in common if they are the same."""
        return self.mode, self.sha256


@dataclass(frozen=True)
class Change:
    """A file that is to differ from the base image's, and every path at which it is installed."""

    component: str
    path: str
    before: State | None
    """None where there is no such file."""
    after: State | None
    """None where it is to go."""
    places: tuple[str, ...]
    trusted: bool = False
    """True where `before` is not known: a build command wrote the file, in a stage of the same base."""
    optional: bool = False
    """True where a build may leave it uninstalled: the source of a compiled extension."""


def found(place: str) -> State | None:
    """What is at a path now; None where there is nothing."""
    path = Path(place)
    try:
        kind = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(kind.st_mode):
        target = os.readlink(place)  # Path.readlink came with 3.9
        return State(LINK, hashlib.sha256(os.fsencode(target)).hexdigest(), target)
    if stat.S_ISDIR(kind.st_mode):
        return State(FOLDER, "")
    if not stat.S_ISREG(kind.st_mode):
        return State(SPECIAL, "")
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for chunk in iter(lambda: stream.read(READ_BYTES), b""):
            digest.update(chunk)
    return State(PROGRAM if kind.st_mode & stat.S_IXUSR else FILE, digest.hexdigest())


def same(one: State | None, other: State | None) -> bool:
    """True where both are nothing, or the same kind and bytes."""
    return (one and one.key) == (other and other.key)


def change_of(tree: dict[str, Any]) -> Change:
    """A change as the manifest has it."""
    before, after = (State(**tree[side]) if tree[side] else None for side in ("before", "after"))
    return Change(
        component=tree["component"],
        path=tree["path"],
        before=before,
        after=after,
        places=tuple(tree["places"]),
        trusted=tree.get("trusted", False),
        optional=tree.get("optional", False),
    )
