"""A redacted copy of a bundle, of which the judge says what it says of the original."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BundleError
from harness.evidence.exported import is_rewritten
from harness.evidence.manifest import MANIFEST, UNFINISHED
from harness.evidence.names import name_fault
from harness.evidence.originals import ORIGINALS, OriginalFile, Removed
from harness.evidence.redaction.finding import Found
from harness.evidence.redaction.kinds import CREDENTIALS, Kind
from harness.evidence.redaction.parquet import parquet_strings, redact_parquet
from harness.evidence.redaction.redactor import Redactor, pieces

SIGNED = ("*.intoto.json", "*.dsse", "ledger*.json", "pipe/*", MANIFEST)
"""Signed, chained by hashes, or a list of them: it travels as it is or not at all."""
PINNED = ("locks/*/*/integration.patch", "locks/*/*/composed.tar", "locks/*/composed.tar", "locks/*/*.patch")
"""Source code whose hash a lock names: as public as the pull requests that it came from."""
OPAQUE = frozenset({".gz", ".zst", ".xz", ".zip", ".bz2", ".png"})
"""Files into which the rules cannot look."""
MOST_RANGES = 100


@dataclass
class Staged:
    """What became of the files."""

    files: dict[str, OriginalFile]
    """As the export will hold them, all of them raw as yet."""
    removed: Counter[Kind]
    opaque: list[str]


def stage(source: Path, target: Path, redactor: Redactor) -> Staged:
    """Copy the bundle, redacted; verdict and report are left out.

    Raises:
        BundleError: a file cannot be exported: a link, a name that tells, something private in what is signed.
    """
    names = list(_names(source))
    for name in names:
        redactor.learn(name.encode())
        if not is_rewritten(name):
            _learn(source / name, redactor, CREDENTIALS if is_pinned(name) else frozenset(Kind))
    redactor.number()
    for name in names:
        if told := redactor.places(name.encode()):
            raise BundleError(
                f"{redactor.redacted(name.encode()).decode()}: this file's name holds a {told[0].kind}. The manifest, "
                "and so the root hash, names the file, so it cannot be renamed: nothing was exported"
            )
    staged = Staged({}, Counter(), [])
    for name in names:
        staged.files[name] = entry = _copy(source / name, target / name, name, redactor)
        for removed in entry.redactions:
            staged.removed[removed.kind] += removed.count
        if Path(name).suffix in OPAQUE:
            staged.opaque.append(name)
    return staged


def _names(source: Path) -> Iterator[str]:
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        if path.is_symlink():
            raise BundleError(f"{path}: is a link; a bundle has none, so it is not exported")
        if not path.is_file() or path.match(UNFINISHED):
            continue
        if fault := name_fault(name):
            raise BundleError(f"{path}: the name {fault}; it is not exported")
        if name == ORIGINALS:
            raise BundleError(f"{source} was made from an export: export the original, or pass the export on as it is")
        yield name


def is_pinned(name: str) -> bool:
    """True for source code, in which only what gives access is private."""
    return _matches(name, PINNED)


def _learn(path: Path, redactor: Redactor, kinds: Collection[Kind]) -> None:
    if path.suffix == ".parquet":
        for text in parquet_strings(path):
            redactor.learn(text)
        return
    with path.open("rb") as stream:
        for piece in pieces(stream):
            redactor.learn(piece, kinds=kinds)


def _copy(source: Path, target: Path, name: str, redactor: Redactor) -> OriginalFile:
    digest, size = hashlib.sha256(), 0
    if is_rewritten(name):
        with source.open("rb") as stream:
            return OriginalFile(
                sha256=hashlib.file_digest(stream, "sha256").hexdigest(),
                size=source.stat().st_size,
                form="raw",
                derived=True,
            )
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".parquet":
        with source.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        redactions = redact_parquet(source, target, redactor)
        return OriginalFile(sha256=sha256, size=source.stat().st_size, form="raw", redactions=redactions)
    signed, pinned = _matches(name, SIGNED), is_pinned(name)
    lines = _Lines()
    with source.open("rb") as stream, target.open("wb") as copy:
        for piece in pieces(stream):
            digest.update(piece)
            size += len(piece)
            places = redactor.places(piece)
            if signed or pinned:
                _refuse(name, [one for one in places if signed or one.kind in CREDENTIALS], lines.line, piece)
                places = []
            lines.add(piece, places)
            copy.write(redactor.replaced(piece, places))
    return OriginalFile(sha256=digest.hexdigest(), size=size, form="raw", redactions=lines.removed())


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(Path(name).match(p) for p in patterns)


def _refuse(name: str, places: list[Found], first_line: int, piece: bytes) -> None:
    if places:
        line = first_line + piece.count(b"\n", 0, places[0].begin)
        raise BundleError(
            f"{name}: line {line} holds a {places[0].kind}. It is signed, or a hash in what is signed names it, so it "
            "cannot be redacted: nothing was exported"
        )


class _Lines:
    """Which lines lost what."""

    def __init__(self) -> None:
        self.line = 1
        """The next piece begins with it."""
        self._lines: dict[Kind, Counter[int]] = {}

    def add(self, piece: bytes, places: list[Found]) -> None:
        now, line = 0, self.line
        for one in places:
            line += piece.count(b"\n", now, one.begin)
            now = one.begin
            self._lines.setdefault(one.kind, Counter())[line] += 1
        self.line += piece.count(b"\n")

    def removed(self) -> tuple[Removed, ...]:
        return tuple(
            Removed(kind=kind, where=_ranges(sorted(lines)), count=lines.total())
            for kind, lines in sorted(self._lines.items())
        )


def _ranges(lines: list[int]) -> str:
    """`line 3`, `lines 3, 7-9`."""
    runs: list[tuple[int, int]] = []
    for line in lines:
        if runs and runs[-1][1] == line - 1:
            runs[-1] = (runs[-1][0], line)
        else:
            runs.append((line, line))
    if len(runs) > MOST_RANGES:
        return f"{len(lines)} of the lines {lines[0]}-{lines[-1]}"
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"{'line' if len(lines) == 1 else 'lines'} {shown}"
