"""Files of a bundle that others wrote: a user's check, or a process that died before it could tell their hash."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.evidence.pipe import bundle_of, file_digest, journal, lines_of


def adopt(root: Path, files: Iterable[Path], hashed: str) -> None:
    """Note files that others wrote into the bundle: a user's check, or code under test.

    Args:
        root: The bundle.
        files: Any files below it; those that the pipe knows already are left alone, unless they were adopted too.
        hashed: When their hash is taken, e.g. `after the check test_own.py::test_arm`.
    """
    candidates = {p.absolute().relative_to(root).as_posix(): p for p in files}
    mine = journal(root)
    candidates = {name: path for name, path in candidates.items() if name not in mine.known}
    if not candidates:
        return
    noted: dict[str, tuple[str, str | None]] = {
        line["file"]: (line["op"], line.get("sha256")) for line in lines_of(root, *candidates)
    }
    for name, path in sorted(candidates.items()):
        op, sha256 = noted.get(name, ("found", None))
        digest, size = file_digest(path) if op == "found" else ("", 0)
        if op == "found" and digest != sha256:
            mine.note("found", name, bytes=size, sha256=digest, hashed=hashed)
            mine.known.discard(name)  # its writer is not this process, and may write on


def close_for(path: Path) -> None:
    """Note what a file holds whose writer, another process, ended without closing it; nothing where it did close it."""
    place = bundle_of(path)
    if place is None or not path.is_file():
        return
    root, name = place
    ops = [line["op"] for line in lines_of(root, name)]
    if ops and ops[-1] == "opened":
        digest, size = file_digest(path)
        journal(root).note("found", name, bytes=size, sha256=digest, hashed="after its writer died")
