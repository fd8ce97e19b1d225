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
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Add to the log.

        Raises:
            SetupFailure: it cannot be written, because the disk is full, say.
        """
        self._hash.update(data)
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as e:
            raise SetupFailure(f"the build log {self.path} cannot be written: {e.strerror}; make room for it") from e

    @property
    def sha256(self) -> str:
        """Of everything that was written."""
        return self._hash.hexdigest()


def faults_in(text: str) -> list[str]:
    """What the program inside the image found wrong, in its order, each once."""
    if NO_PYTHON.search(text):
        return ["the base image has no python3 on its PATH, which checks and writes the files inside it"]
    return list(dict.fromkeys(line.rstrip("\r") for line in OURS.findall(text)))
