"""From what a reviewer has in hand, a folder or an archive, to a folder that can be read."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import BundleError, RefusedBundle
from harness.evidence.mismatch import Mismatch
from harness.evidence.names import Names, printable
from harness.evidence.unpack import Limits, unpack


@dataclass(frozen=True)
class Opened:
    """A bundle's folder, and what a reader must know about how it came to be."""

    root: Path
    notes: tuple[str, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    """What was found to be other than it says while it was laid out."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """Path -> SHA-256 of the original, for files that were changed after the manifest was written and said so
    (redacted ones): only whoever holds the original can check it."""


Layout = Callable[[Path], AbstractContextManager[Opened]]
"""How a bundle of another form is laid out as the one that the judge reads."""


@contextlib.contextmanager
def opened(place: str, layout: Layout | None = None) -> Iterator[Opened]:
    """The bundle at a place: the folder of a session, a .tar.zst, a .tar.gz or a .zip.

    Args:
        place: where it lies. An archive is unpacked into a folder that is gone afterwards.
        layout: takes a folder of another form and gives the one to verify.

    Raises:
        BundleError: there is none.
        RefusedBundle: it holds what no bundle holds: links, devices, names that lead elsewhere, too much.
    """
    path = Path(place)
    if not path.exists():
        raise BundleError(f"{place}: there is nothing; give a folder of a session, a .tar.zst, a .tar.gz or a .zip")
    with contextlib.ExitStack() as stack:
        if path.is_dir():
            root = path.resolve()
        else:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qualify-verify-")))
            unpack(path, root)
        root = _inner(root)
        files_of(root)
        bundle = stack.enter_context(layout(root)) if layout is not None else Opened(root)
        if not (bundle.root / "plan.json").is_file():
            raise BundleError(
                f"{place} is no bundle (no plan.json); give the folder of a session, or an archive of one"
            )
        yield bundle


def files_of(root: Path, limits: Limits | None = None) -> dict[str, int]:
    """Size in bytes of every file below a folder, by its path, sorted.

    Raises:
        RefusedBundle: something there is no plain file, or has a name that no bundle's file has.
    """
    names, found = Names((limits or Limits()).members), {}
    folders = [(root, "")]
    while folders:
        folder, prefix = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name, about = f"{prefix}{entry.name}", entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    names.add(name, folder=True)
                    folders.append((folder / entry.name, f"{name}/"))
                elif stat.S_ISREG(about.st_mode):
                    names.add(name)
                    found[name] = about.st_size
                else:
                    kind = "a symbolic link" if stat.S_ISLNK(about.st_mode) else "no plain file"
                    raise RefusedBundle(f"{printable(name)}: is {kind}; a bundle holds plain files only, so remove it")
    return dict(sorted(found.items()))


def _inner(root: Path) -> Path:
    """An archive often holds one folder, and the bundle in it."""
    entries = list(root.iterdir()) if not (root / "plan.json").exists() else []
    only = entries[0] if len(entries) == 1 else None
    return only if only is not None and only.is_dir() and not only.is_symlink() else root
