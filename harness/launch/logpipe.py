"""A server's output: raw bytes to a file, hashed and timed while they are written.

The hash is taken from the bytes as they leave the pipe, not by reading the file later, so a file
that somebody changed afterwards shows.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

READ_BYTES = 1 << 16


class LogPipe:
    """Copies one file descriptor to a file until its last writer closes it."""

    def __init__(self, fd: int, log_file: Path, times_file: Path) -> None:
        self._fd = fd
        self._log_file = log_file
        self._times_file = times_file
        self._hash = hashlib.sha256()
        self._bytes = 0
        self.first_byte_ns: int | None = None
        self._write_error: OSError | None = None
        self._thread = threading.Thread(target=self._copy, name="log-pipe", daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        with self._log_file.open("wb", buffering=0) as log, self._times_file.open("w", encoding="ascii") as times:
            while data := os.read(self._fd, READ_BYTES):
                now = time.monotonic_ns()
                if self.first_byte_ns is None:
                    self.first_byte_ns = now
                self._hash.update(data)
                self._bytes += len(data)
                if self._write_error is not None:
                    continue  # keep draining: a full pipe would stop the server that is being measured
                try:
                    log.write(data)
                    times.write(f"[{self._bytes}, {now}]\n")
                    times.flush()
                except OSError as e:
                    self._write_error = e
        os.close(self._fd)

    def finish(self, timeout_s: float) -> bool:
        """Wait for the end of the output; False when a writer still holds the pipe open."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def digest(self) -> tuple[str, int]:
        """SHA-256 and length of everything that came through the pipe."""
        return self._hash.hexdigest(), self._bytes

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
