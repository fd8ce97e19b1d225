"""The files beside a lock: the whole difference as a patch, and the changed files as they are to be."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from harness.stack.changes import SYMLINK, link_target
from harness.stack.git import Git
from harness.stack.record import LockedFile

PATCH_OPTIONS = (
    *("-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--diff-algorithm=myers", "--unified=3", "--inter-hunk-context=0", "--indent-heuristic"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
"""Every choice that a configuration or another version of git could make otherwise."""


def write_patch(git: Git, before: str, after: str, path: Path) -> str:
    """Write the difference of two trees, binary files included, and return its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with git.stream("diff-tree", *PATCH_OPTIONS, before, after) as content, path.open("wb") as target:
        while chunk := content.read(1 << 20):
            target.write(chunk)
    return file_sha256(path)


def write_composed(git: Git, tree: str, files: Iterable[LockedFile], path: Path) -> str:
    """Write the changed files, as they are in `tree`, into an archive and return its SHA-256.

    Names, modes and contents come from the tree, everything else is fixed: same tree, same bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for file in files:
            if file.mode_after is None:
                continue
            blob = f"{tree}:{file.path}"
            entry = tarfile.TarInfo(file.path)
            if file.mode_after == SYMLINK:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, link_target(git, blob), 0o777
                archive.addfile(entry, io.BytesIO())
                continue
            entry.mode = 0o755 if file.mode_after == "100755" else 0o644
            entry.size = int(git.run("cat-file", "-s", blob).text)
            with git.stream("cat-file", "blob", blob) as content:
                archive.addfile(entry, content)
    return file_sha256(path)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
