"""Hash of a file, and of whatever is too long to be read at once."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
