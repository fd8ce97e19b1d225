"""Root hashes that this host has shown to somebody: their evidence must stay to be asked for.

`qualify publish` calls `note_published` once its comment stands; retention asks. Like the anchors this is no part of
the index, since no bundle knows it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness.errors import BundleError
from harness.paths import state_root


def published_file() -> Path:
    """Where they are kept."""
    return state_root() / "published.jsonl"


def note_published(root_sha256: str, where: str, when: str) -> None:
    """Remember that a bundle was published.

    Args:
        root_sha256: its root hash.
        where: what a person follows, e.g. the comment's address.
        when: UTC, ISO 8601.
    """
    file = published_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"root_sha256": root_sha256, "where": where, "when": when})
    with file.open("ab") as stream:
        stream.write(line.encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def published() -> dict[str, str]:
    """Root hash -> where it was published last.

    Raises:
        BundleError: the file is broken; nothing may be deleted then.
    """
    file, found = published_file(), {}
    for number, line in enumerate(file.read_bytes().splitlines() if file.is_file() else (), 1):
        try:
            entry = json.loads(line)
            found[str(entry["root_sha256"])] = str(entry["where"])
        except (ValueError, KeyError, TypeError):
            raise BundleError(f"{file}:{number}: cannot be read; mend or remove that line") from None
    return found
