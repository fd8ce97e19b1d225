"""originals.json: what an exported bundle says about the bundle that it was made from.

It names every file of the original with its hash, so that the original's manifest, and with it the root hash that
was signed, follows from it. What was removed is named by kind and place, never by a hash of its own: a short word
could be guessed from that.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from harness.errors import BundleError
from harness.evidence.redaction.kinds import Kind
from harness.records import Record

ORIGINALS = "originals.json"
ORIGINALS_SCHEMA: Literal[1] = 1
LARGEST_BYTES = 64 << 20
"""Of originals.json itself: 100,000 files with their redactions."""

SHA256 = r"^[0-9a-f]{64}$"


class Removed(Record):
    """What was removed from one file, of one kind."""

    kind: Kind
    where: str
    """`lines 3, 7-9`, or `column gpu` of a parquet file."""
    count: int = Field(ge=1)


class OriginalFile(Record):
    """A file of the original, and how the export holds it."""

    sha256: str = Field(pattern=SHA256)
    size: int = Field(ge=0)
    """Bytes of the original; a redacted text has as many."""
    form: Literal["raw", "zst"]
    """zst: the export's file has `.zst` behind its name."""
    derived: bool = False
    """Verdict and report: written again from the redacted evidence, so neither hash nor size is the original's."""
    redactions: tuple[Removed, ...] = ()

    @property
    def unchanged(self) -> bool:
        """True where the export holds the very bytes of the original."""
        return not self.derived and not self.redactions


class Originals(Record):
    """The original bundle (originals.json)."""

    schema_version: Literal[1] = ORIGINALS_SCHEMA
    session: str
    root_sha256: str = Field(pattern=SHA256)
    """Root hash of the original's evidence."""
    note: str
    """For whoever opens the file without this program."""
    files: dict[str, OriginalFile]
    """By the path in the original."""
    cells: dict[str, str] = Field(default_factory=dict)
    """Identity of a cell as it follows from the redacted evidence -> as it follows from the original."""


def read_originals(root: Path) -> Originals | None:
    """What lies in a folder about its original; None in a bundle that is no export.

    Raises:
        BundleError: it is too large, newer, or broken.
    """
    path = root / ORIGINALS
    if not path.is_file():
        return None
    if path.stat().st_size > LARGEST_BYTES:
        raise BundleError(f"{path}: {path.stat().st_size} bytes is more than any bundle needs ({LARGEST_BYTES})")
    try:
        return Originals.model_validate_json(path.read_bytes())
    except ValidationError as e:
        fault = e.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise BundleError(f"{path}: does not say what an export was made from: `{where}`: {fault['msg']}") from None


def is_redacted(root: Path, path: Path) -> bool:
    """True where the file of a bundle is not as it was measured, because private things were removed."""
    originals = read_originals(root)
    entry = originals.files.get(path.relative_to(root).as_posix()) if originals else None
    return entry is not None and bool(entry.redactions)


def original_sha256(root: Path, path: Path) -> str:
    """SHA-256 of a file of a bundle; in one that was exported that of the file as it was measured."""
    originals = read_originals(root)
    entry = originals.files.get(path.relative_to(root).as_posix()) if originals else None
    if entry is not None:
        return entry.sha256
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
