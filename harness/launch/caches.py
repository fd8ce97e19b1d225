"""Compile caches of a lane: cold is empty, warm is a copy of what a cold launch left.

Every launch of a lane finds its caches at the same path, because paths enter some cache keys.
"""

from __future__ import annotations

import contextlib
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
            SetupFailure: the launch is to be warm, and the cold launch left nothing to copy.
        """
        shutil.rmtree(self.live, ignore_errors=True)
        if cache is Cache.COLD:
            self.live.mkdir(parents=True)
            return
        source = self._kept / (warm_from or "")
        if warm_from is None or not source.is_dir():
            raise SetupFailure(f"no warm cache: the cold launch {warm_from} did not complete and left none")
        shutil.copytree(source, self.live, symlinks=True)

    def keep(self, launch_id: str) -> None:
        """Keep what a completed cold launch left, for the warm launches that start from it."""
        self._kept.mkdir(parents=True, exist_ok=True)
        self.live.rename(self._kept / launch_id)

    def remove(self) -> None:
        """Remove everything; the evidence holds the listings."""
        shutil.rmtree(self.live.parent, ignore_errors=True)


def listing(root: Path) -> dict[str, int]:
    """Files below the cache root with their size in bytes, by relative path."""
    sizes = {}
    for path in sorted(root.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # a compiler's temporary file, gone again
            if path.is_file():
                sizes[path.relative_to(root).as_posix()] = path.stat().st_size
    return sizes
