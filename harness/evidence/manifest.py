"""SHA256SUMS over a bundle's evidence, and the root hash that names the evidence as a whole.

Verdict and report are derived from the evidence and carry its root hash, so they are not part of
it; whoever holds the evidence can derive them again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.evidence.bundle import write_atomically
from harness.evidence.originals import ORIGINALS, read_originals

MANIFEST = "SHA256SUMS"
UNFINISHED = ".*.tmp"
"""Files that `write_atomically` had not renamed yet."""
DERIVED = ("verdict.json", "report", MANIFEST, ORIGINALS)


def evidence_files(root: Path) -> list[Path]:
    """Files of the bundle that are evidence, sorted by their relative path."""
    files = [p for p in root.rglob("*") if p.is_file() and not p.match(UNFINISHED)]
    return sorted(
        (p for p in files if p.relative_to(root).parts[0] not in DERIVED),
        key=lambda p: p.relative_to(root).as_posix(),
    )


def manifest_text(root: Path) -> str:
    """The manifest in the format of sha256sum(1); in a bundle that was exported that of its original."""
    if (originals := read_originals(root)) is not None:
        files = sorted((name, entry.sha256) for name, entry in originals.files.items())
        return "".join(f"{sha256}  {name}\n" for name, sha256 in files if name.partition("/")[0] not in DERIVED)
    lines = []
    for path in evidence_files(root):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        lines.append(f"{digest}  {path.relative_to(root).as_posix()}\n")
    return "".join(lines)


def seal(root: Path) -> str:
    """Write SHA256SUMS and return the root hash: the SHA-256 of that file."""
    text = manifest_text(root).encode()
    write_atomically(root / MANIFEST, text)
    return hashlib.sha256(text).hexdigest()


def root_hash(root: Path) -> str:
    """Root hash of the evidence as it is now, whether or not it was sealed."""
    return hashlib.sha256(manifest_text(root).encode()).hexdigest()
