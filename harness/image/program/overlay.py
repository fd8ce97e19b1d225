"""Lay whole files over the image's own: every copy is checked before and after, nothing is fuzzy.

All faults are found before the first byte is written, and all of them are told.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.image.program.bytecode import CACHE_FOLDER, stale
from harness.image.program.state import FOLDER, LINK, PROGRAM, Change, State, found, same

TEMPORARY = ".qualify-tmp"


class Refused(Exception):  # noqa: N818  # reads as what happened
    """The image is not as the lock says; one line per fault."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def check_before(changes: Sequence[Change]) -> None:
    """Hold every copy against what the base image is to have there.

    Raises:
        Refused: a copy is missing, is there although it is to be new, or is another one.
    """
    leaving = [place for change in changes if change.after is None for place in change.places]
    faults = []
    for change, place in _each(changes):
        now = found(place)
        if change.trusted or same(now, change.before):
            continue
        if change.before is None and now is not None and now.mode == FOLDER and _empties(Path(place), leaving):
            continue
        hint = "; the patched file is there already" if now is not None and same(now, change.after) else ""
        faults.append(f"{_fault(change, place, change.before, now)}{hint}")
    if faults:
        count = len(list(_each(changes)))
        raise Refused([f"{len(faults)} of {count} copies in the base image are not as the lock says", *faults])


def check_after(changes: Sequence[Change]) -> None:
    """Hold every copy against what it is to be.

    Raises:
        Refused: one is not.
    """
    faults = []
    for change, place in _each(changes):
        now = found(place)
        gone = change.after is None and now is not None and now.mode == FOLDER  # which took the file's place
        left = change.optional and now is None
        if not (same(now, change.after) or gone or left):
            faults.append(_fault(change, place, change.after, now))
    if faults:
        count = len(list(_each(changes)))
        raise Refused([f"afterwards {len(faults)} of {count} copies are not as the lock says", *faults])


def apply(changes: Sequence[Change], blobs: Path) -> Iterator[str]:
    """Write the changes, whose contents lie in the folder `blobs` by SHA-256; yields what was done."""
    for change, place in _each(changes):
        if change.after is None:
            for path in [*stale(place), Path(place)]:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # two places may lead to one file
                    path.unlink()
            _remove_empty(Path(place).parent)
            yield f"removed {place}"
    for change, place in _each(changes):
        # What a build wrote again as it was stays as it is, and so does what Python compiled of it.
        if change.after is not None and not same(found(place), change.after):
            _write(Path(place), change.after, blobs)
            yield f"wrote {place}: {change.after}"
            for path in stale(place):
                path.unlink()
                yield f"removed {path}, compiled from another source"


def _write(place: Path, state: State, blobs: Path) -> None:
    """Put the whole file in place; owner and permissions are those of the old one, or the folder's owner."""
    _make_folder(place.parent)
    old = place.lstat() if os.path.lexists(place) else None
    owner = old or place.parent.stat()
    temporary = place.with_name(f".{place.name}{TEMPORARY}")
    if state.mode == LINK:
        temporary.symlink_to(state.link)
    else:
        shutil.copyfile(blobs / state.sha256, temporary)
        bits = 0o644 if old is None or place.is_symlink() else old.st_mode & 0o777
        temporary.chmod(bits | (bits & 0o444) >> 2 if state.mode == PROGRAM else bits & ~0o111)
    os.chown(temporary, owner.st_uid, owner.st_gid, follow_symlinks=False)
    temporary.replace(place)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)
        owner = folder.parent.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)


def _remove_empty(folder: Path) -> None:
    """Folders that held nothing else go too, as in git: Python would import an empty one as a package."""
    with contextlib.suppress(OSError):
        (folder / CACHE_FOLDER).rmdir()
    with contextlib.suppress(OSError):
        folder.rmdir()
        _remove_empty(folder.parent)


def _empties(folder: Path, leaving: Sequence[str]) -> bool:
    """True where everything in a folder goes, so that a file can take its place."""
    going = {path for place in leaving for path in [Path(place), *stale(place)]}
    return all(path in going for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def _each(changes: Sequence[Change]) -> Iterator[tuple[Change, str]]:
    return ((change, place) for change in changes for place in change.places)


def _fault(change: Change, place: str, expected: State | None, now: State | None) -> str:
    return f"{change.component}: {change.path}: {place}: expected {expected or 'no file'}, found {now or 'no file'}"
