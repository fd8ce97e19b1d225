"""SHA256SUMS over a bundle's evidence, and the root hash that names the evidence as a whole.

Verdict, report and statements are derived from the evidence and carry its root hash, so they are not
part of it; whoever holds the evidence can derive them again. The hashes that were taken while the files
were written are part of it (`harness.evidence.pipe`): the manifest says what lies there at the sealing,
the pipe's journals what was written, and the judge compares the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from harness.errors import BundleError
from harness.evidence import pipe
from harness.evidence.bundle import write_atomically
from harness.evidence.journal import EMPTY, Known, read_journals
from harness.evidence.originals import read_originals
from harness.evidence.pipe import DERIVED, MANIFEST, is_derived

__all__ = [
    "DERIVED",
    "MANIFEST",
    "evidence_files",
    "manifest_text",
    "read_manifest",
    "root_hash",
    "seal",
    "seal_killed",
]

UNFINISHED = ".*.tmp"
"""Files that `write_atomically` had not renamed yet."""
KILLED = "interrupted: killed"


def evidence_files(root: Path, below: Path | None = None) -> list[Path]:
    """Files of the bundle that are evidence, all or those below a folder of it, sorted by their relative path."""
    files = [p for p in (below or root).rglob("*") if p.is_file() and not p.match(UNFINISHED)]
    return sorted(
        (p for p in files if not is_derived(p.relative_to(root))),
        key=lambda p: p.relative_to(root).as_posix(),
    )


def manifest_text(root: Path) -> str:
    """The manifest in the format of sha256sum(1); in a bundle that was exported that of its original."""
    if (originals := read_originals(root)) is not None:
        files = sorted((name, entry.sha256) for name, entry in originals.files.items())
        return "".join(f"{sha256}  {name}\n" for name, sha256 in files if not is_derived(Path(name)))
    lines = []
    for path in evidence_files(root):
        digest, _ = pipe.file_digest(path)
        lines.append(f"{digest}  {path.relative_to(root).as_posix()}\n")
    return "".join(lines)


def read_manifest(text: str) -> dict[str, str]:
    """SHA-256 by path, of a manifest's text."""
    return {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}


def seal(root: Path, ended: str = "completed") -> str:
    """Write SHA256SUMS and return the root hash: the SHA-256 of that file. Nothing of the evidence is written after it.

    Args:
        root: The bundle.
        ended: How the session ended: `completed`, or `interrupted: ...`.

    Raises:
        BundleError: it is sealed already, and what lies there now is something else.
    """
    if not (root / MANIFEST).exists() and (root / pipe.FOLDER).is_dir():
        pipe.close(root, ended)
    text = manifest_text(root).encode()
    if (root / MANIFEST).exists() and (root / MANIFEST).read_bytes() != text:
        raise BundleError(f"{root}: is sealed already, and its evidence has changed since; `qualify verify` names it")
    write_atomically(root / MANIFEST, text)
    return hashlib.sha256(text).hexdigest()


def seal_killed(root: Path) -> str:
    """Seal a bundle whose harness was killed, and say in its journal which files had no end."""
    seen = read_journals(root)
    journal = pipe.journal(root)
    for name, known in sorted(seen.files.items()) if seen is not None else ():
        for op, values in _cut_off(root / name, known):
            journal.note(op, name, **values)
    return seal(root, KILLED)


def _cut_off(path: Path, known: Known) -> Iterator[tuple[str, dict[str, str | int | None]]]:
    """What the kill made of a file: nothing where it is as it was noted, or as nobody's kill leaves it."""
    if known.state == "removed":
        return
    if not path.is_file():
        if known.before is None and known.state == "whole":
            yield "removed", {"hashed": "at the sealing: it was noted, and killed before it was written"}
        return
    digest, size = pipe.file_digest(path)
    found: dict[str, str | int | None] = {"bytes": size, "sha256": digest}
    if known.state == "open":
        yield "found", {**found, "hashed": "at the sealing: its writer was killed"}
    elif digest != known.sha256 and _is_cut_off(path, digest, size, known):
        yield "found", {**found, "hashed": "at the sealing: its last write was cut off by the kill"}


def _is_cut_off(path: Path, digest: str, size: int, known: Known) -> bool:
    """The file before its last write, or with a part of what that was to append."""
    sha256, before = known.before or (EMPTY, 0)
    if digest == sha256:
        return True
    with path.open("rb") as stream:
        return before < size < known.size and hashlib.sha256(stream.read(before)).hexdigest() == sha256


def root_hash(root: Path) -> str:
    """Root hash of the evidence as it is now, whether or not it was sealed."""
    return hashlib.sha256(manifest_text(root).encode()).hexdigest()
