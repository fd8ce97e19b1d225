"""Compile caches of a lane: cold is empty, warm is a copy of what a cold launch left.

Every launch of a lane finds its caches at the same path, because paths enter some cache keys.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from harness.errors import SetupFailure
from harness.words import Cache


class LaneCaches:
    """The caches of one lane of one session."""

    def __init__(self, root: Path) -> None:
        self.live = root / "live"
        """Where the running server's caches are."""
        self._kept = root / "kept"

    def prepare(self, cache: Cache, warm_from: str | None) -> None:
        """Make the live folder what the launch asks for.

        Raises:
            SetupFailure: the launch is to be warm, and the cold launch left nothing to copy; or the
                folder cannot be emptied or filled.
        """
        source = self._kept / (warm_from or "")
        if cache is Cache.WARM and (warm_from is None or not source.is_dir()):
            raise SetupFailure(f"no warm cache: the cold launch {warm_from} did not complete and left none")
        shutil.rmtree(self.live, ignore_errors=True)
        try:
            if cache is Cache.COLD:
                self.live.mkdir(parents=True)
            else:
                shutil.copytree(source, self.live, symlinks=True)
        except OSError as e:  # shutil.Error is one
            raise SetupFailure(f"cannot make {self.live} {cache}: {e}; remove it by hand") from None

    def keep(self, launch_id: str) -> None:
        """Keep what a completed cold launch left, for the warm launches that start from it."""
        self._kept.mkdir(parents=True, exist_ok=True)
        self.live.rename(self._kept / launch_id)

    def remove(self) -> None:
        """Remove everything; the evidence holds the listings."""
        shutil.rmtree(self.live.parent, ignore_errors=True)


def listing(root: Path) -> dict[str, tuple[int, int]]:
    """Files below the cache root by relative path: bytes, and time of the last change in ns since 1970."""
    found = {}
    for folder, _, names in os.walk(root):  # passes over folders that are gone again, which rglob does not
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):  # a compiler's temporary file, gone again
                if path.is_file():
                    status = path.stat()
                    found[path.relative_to(root).as_posix()] = status.st_size, status.st_mtime_ns
    return dict(sorted(found.items()))
