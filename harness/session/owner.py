"""Who runs a session: a lock that its process holds, so that the next one finds a session whose process was killed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from harness.paths import work_root

_held: dict[Path, IO[str]] = {}
"""Lock files of this process by the bundle's folder; the kernel gives them free at its end, however it ends."""


def own(root: Path) -> None:
    """Say that this process runs the session of a bundle, until `disown` or its end."""
    path = _folder() / f"{root.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("w", encoding="utf-8")
    with contextlib.suppress(OSError):  # a disk that knows no locks: then nobody finds the session if it is killed
        fcntl.flock(stream, fcntl.LOCK_EX)
    # The host too: results may lie on a disk that other hosts see, and whose locks they do not.
    json.dump({"bundle": str(root), "host": socket.gethostname(), "pid": os.getpid()}, stream)
    stream.flush()
    _held[root] = stream


def disown(root: Path) -> None:
    """The session of a bundle is over and sealed."""
    stream = _held.pop(root, None)
    (_folder() / f"{root.name}.lock").unlink(missing_ok=True)
    if stream is not None:
        stream.close()


@contextlib.contextmanager
def _taken(path: Path) -> Iterator[Path | None]:
    """The bundle of a lock file whose process is gone, held while it is looked after; None where it is not."""
    try:
        with path.open(encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            tree = json.load(stream)
            root = Path(tree["bundle"]) if tree["host"] == socket.gethostname() else None
            yield root if root is not None and path.exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        yield None


def abandoned() -> Iterator[Path]:
    """Bundles whose process was killed before it could seal them; each is held while the caller looks after it."""
    for path in sorted(_folder().glob("*.lock")):
        with _taken(path) as root:
            if root is not None:
                yield root


def _folder() -> Path:
    return work_root() / "sessions"
