"""Files that are written piece by piece: hashed as they are, noted when they are whole, or when they end."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import IO, Any, cast

from harness.evidence.pipe import PipeJournal, bundle_of, journal, put, write_all
from harness.evidence.undivided import uninterrupted


@contextlib.contextmanager
def whole(path: Path, *, hashed: str | None = None) -> Iterator[HashingFile]:
    """A file that is written piece by piece and gets its name once it is whole and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb", buffering=0) as stream:
            yield (writer := HashingFile(stream))
            os.fsync(stream.fileno())
        put(path, writer.sha256, writer.size, lambda: temporary.rename(path), hashed=hashed)
    finally:
        uninterrupted(lambda: temporary.unlink(missing_ok=True))  # after a move that Ctrl-C left to be done


class HashingFile:
    """Enough of a binary file for those that only write: the hash is of what was asked to be written."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size = 0
        """Bytes so far."""
        self.closed = False

    @property
    def sha256(self) -> str:
        """Of everything so far, in hex."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        """Write all of it."""
        data = bytes(data)
        self._digest.update(data)
        self.size += len(data)
        write_all(self._stream.fileno(), data)
        return len(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self.size

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Whoever opened the file closes it: `whole` has to see it on the disk first."""

    def readable(self) -> bool:
        """No."""
        return False

    def writable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """No."""
        return False


class GrowingFile(io.RawIOBase):
    """A new file that grows while a session runs (a log, samples, events); one thread writes all of it.

    It has no `fileno` on purpose: what was written past it would be missing from the hash.
    """

    _file: FileIO | None = None
    _journal: PipeJournal | None = None

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
        return uninterrupted(lambda: self._write(piece)) if self._journal is not None else self._write(piece)

    def _write(self, piece: bytes) -> int:
        self._digest.update(piece)
        self._size += len(piece)
        assert self._file is not None
        try:
            write_all(self._file.fileno(), piece)
        except OSError as e:
            self._error = self._error or e
            raise
        return len(piece)

    def close(self) -> None:
        """Note what came through."""
        if self._journal is not None:
            uninterrupted(self._close)
        else:
            self._close()

    def let_go(self) -> None:
        """Nobody closed it, and so the journal shows it: the collector may run amidst a line of the journal."""
        self._journal = None

    def __del__(self) -> None:
        """Close what nobody closed, and note nothing."""
        self.let_go()
        if self._file is not None:
            self._file.close()

    def _close(self) -> None:
        if self.closed:
            return
        super().close()
        if self._file is None:  # it could not even be opened
            return
        with self._file:
            if self._journal is not None:
                error = os.strerror(self._error.errno or 0) if self._error is not None else None
                digest = self._digest.hexdigest()
                self._journal.note("closed", self._name, bytes=self._size, sha256=digest, error=error)
                with contextlib.suppress(OSError):
                    os.fsync(self._file.fileno())
                    self._journal.sync()


class _GrowingText(io.TextIOWrapper):
    """Text over a `GrowingFile`, without a buffer of bytes between them, which would close it when it is collected."""

    def __init__(self, file: GrowingFile, encoding: str) -> None:
        super().__init__(cast("IO[bytes]", file), encoding=encoding)
        self._file = file

    def __del__(self) -> None:
        """Write what it still holds back, and note nothing."""
        self._file.let_go()
        with contextlib.suppress(OSError, ValueError):  # the collector may have taken the file first
            self.close()


def growing_text(path: Path, *, encoding: str = "utf-8") -> IO[str]:
    """A `GrowingFile` for text; it is on its way to the disk with each `flush`."""
    return _GrowingText(GrowingFile(path), encoding)
