"""A file that grows while a session runs (a log, samples, events): hashed as it is written, noted when it ends."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from pathlib import Path
from typing import IO

from harness.evidence.pipe import bundle_of, journal


class GrowingFile(io.RawIOBase):
    """A new file that one thread writes from its first byte to its last.

    It has no `fileno` on purpose: what was written past it would be missing from the hash.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        place = bundle_of(path)
        self._file = path.open("wb", buffering=0)
        self._digest = hashlib.sha256()
        self._size = 0
        self._error: OSError | None = None
        self._journal = journal(place[0]) if place is not None else None
        self._name = place[1] if place is not None else ""
        if self._journal is not None:
            self._journal.note("opened", self._name)

    def writable(self) -> bool:
        """Yes, and nothing else."""
        return True

    def write(self, data: object) -> int:
        """Write all of it; the hash is of what came, whether or not the disk had room for it.

        Raises:
            OSError: the disk is full, say. The journal says so.
        """
        piece = bytes(data)  # type: ignore[call-overload]  # any buffer, as RawIOBase has it
        self._digest.update(piece)
        self._size += len(piece)
        left = memoryview(piece)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as e:
            self._error = self._error or e
            raise
        return len(piece)

    def close(self) -> None:
        """Note what came through."""
        if self.closed:
            return
        super().close()
        with self._file:
            if self._journal is not None:
                error = os.strerror(self._error.errno or 0) if self._error is not None else None
                digest = self._digest.hexdigest()
                self._journal.note("closed", self._name, bytes=self._size, sha256=digest, error=error)
                with contextlib.suppress(OSError):
                    os.fsync(self._file.fileno())
                    self._journal.sync()


def growing_text(path: Path, *, encoding: str = "utf-8") -> IO[str]:
    """A `GrowingFile` for text; it is on its way to the disk with each `flush`."""
    return io.TextIOWrapper(io.BufferedWriter(GrowingFile(path)), encoding=encoding)
