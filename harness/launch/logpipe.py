"""A server's output: raw bytes to a file, hashed and timed while they are written.

The hash is taken from the bytes as they leave the pipe, not by reading the file later, so a file
that somebody changed afterwards shows.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.evidence.stream import GrowingFile

READ_BYTES = 1 << 16


class LogSource(Protocol):
    """Where a server's output comes from."""

    def read(self) -> bytes:
        """Wait for the next bytes and return them; nothing at the end."""

    def close(self) -> None:
        """Give the source free; called once, after the end."""


@dataclass(frozen=True)
class PipeEnd:
    """The reading end of a pipe, as a source."""

    fd: int

    def read(self) -> bytes:
        """See `LogSource.read`."""
        return os.read(self.fd, READ_BYTES)

    def close(self) -> None:
        """See `LogSource.close`."""
        os.close(self.fd)


class LogPipe:
    """Copies one source (a file descriptor, say) to a file until its last writer closes it."""

    def __init__(self, source: LogSource | int, log_file: Path, times_file: Path) -> None:
        self._source = PipeEnd(source) if isinstance(source, int) else source
        self._log_file = log_file
        self._times_file = times_file
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._cpu_ns: int | None = None
        self._write_error: OSError | None = None
        self._thread = threading.Thread(target=self._copy, name="log-pipe", daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        try:
            with GrowingFile(self._log_file) as log, GrowingFile(self._times_file) as times:
                for now, data in self._read():
                    log.write(data)
                    times.write(b"[%d, %d]\n" % (self._bytes, now))
        except OSError as e:
            self._write_error = e
            for _ in self._read():
                pass  # keep draining: a full pipe would stop the server that is being measured
        self._source.close()
        self._cpu_ns = time.thread_time_ns()

    def _read(self) -> Iterator[tuple[int, bytes]]:
        while data := self._source.read():
            now = time.monotonic_ns()
            self._hash.update(data)
            self._bytes += len(data)
            yield now, data

    def finish(self, timeout_s: float) -> bool:
        """Wait for the end of the output; False when a writer still holds the pipe open."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def digest(self) -> tuple[str, int]:
        """SHA-256 and length of everything that came through the pipe."""
        return self._hash.hexdigest(), self._bytes

    @property
    def cpu_ns(self) -> int | None:
        """CPU time that the copying took, all of it beside the server that is being measured; None until the end."""
        return self._cpu_ns

    @property
    def write_error(self) -> OSError | None:
        """Why the file lacks the end of the output (a full disk, say), or None."""
        return self._write_error


def tail(log_file: Path, lines: int = 40, limit_bytes: int = 16_384) -> str:
    """The last lines of a log, as text; undecodable bytes are shown as escapes."""
    try:
        with log_file.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - limit_bytes))
            data = stream.read()
    except OSError:
        return ""
    text = data.decode("utf-8", "backslashreplace").replace("\r", "\n")
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
