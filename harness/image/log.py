"""A build's log: the builder's bytes as they come, hashed while they are written."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.errors import SetupFailure
from harness.image.program.main import ERROR

OURS = re.compile(rf"^(?:#\d+ )?(?:\d+\.\d+ )?{ERROR}(.*)$", re.MULTILINE)
"""BuildKit puts the step and the seconds in front of each line, and repeats the last ones."""
NO_PYTHON = re.compile(r'exec: \\?"python3\\?": (?:executable file not found|stat python3)')


class BuildLog:
    """The file, from the first byte to the last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash = hashlib.sha256()
        self._error: OSError | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Add to the log. A fault is told at the end: a builder that is let go of half-way leaves its steps behind."""
        self._hash.update(data)
        if self._error is None:
            try:
                while data:
                    data = data[self._file.write(data) :]
            except OSError as e:
                self._error = e

    def check(self) -> None:
        """See whether all of it was written.

        Raises:
            SetupFailure: it was not, because the disk is full, say.
        """
        if self._error is not None:
            why = self._error.strerror
            raise SetupFailure(f"the build log {self.path} cannot be written: {why}; make room for it") from self._error

    @property
    def sha256(self) -> str:
        """Of everything that was written."""
        return self._hash.hexdigest()


def faults_in(text: str) -> list[str]:
    """What the program inside the image found wrong, in its order, each once."""
    if NO_PYTHON.search(text):
        return ["the base image has no python3 on its PATH, which checks and writes the files inside it"]
    return list(dict.fromkeys(line.rstrip("\r") for line in OURS.findall(text)))
