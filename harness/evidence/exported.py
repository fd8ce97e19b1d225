"""Read an exported bundle: lay it out as a bundle again, and check what can be checked of it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from harness.errors import RefusedBundle
from harness.evidence.mismatch import Mismatch
from harness.evidence.names import Names, printable
from harness.evidence.originals import LARGEST_BYTES, ORIGINALS, OriginalFile, Originals, read_originals
from harness.evidence.packing import WINDOW_LOG

EXPORT_SUMS = "EXPORT.SHA256SUMS"
"""SHA-256 of every file of the export, as it lies there."""
ENDING = ".zst"
REWRITTEN = ("verdict.json", "report")
MOST_FILES = 50_000
MOST_BYTES = 8 << 30
"""Of a laid-out bundle."""
CHUNK_BYTES = 1 << 18


def is_export(root: Path) -> bool:
    """True for what `qualify export` wrote; not for the bundle that it was laid out as."""
    return (root / EXPORT_SUMS).is_file() and (root / ORIGINALS).is_file()


def laid_out(root: Path, into: Path) -> tuple[Path, list[Mismatch]]:
    """Lay an export out as a bundle that the judge reads, and say what of it is not as it says.

    Checked are every file against the export's own manifest, and every file that was not redacted against the
    original's hash. Nothing is written but plain files below `into`, none longer than `originals.json` says.

    Args:
        root: Folder of the export.
        into: An empty folder, or one to be made.

    Raises:
        RefusedBundle: it holds what no export holds: links, names that lead elsewhere, more bytes than it says.
        BundleError: `originals.json` is missing or broken.
    """
    originals = read_originals(root)
    if originals is None:
        raise RefusedBundle(f"{root}: no {ORIGINALS}, so it is no export")
    stored = dict(_stored(root))
    found = list(_against_sums(root, stored))
    _refuse_sizes(originals)
    names = Names(2 * MOST_FILES)
    known = {ORIGINALS, EXPORT_SUMS}
    for name, entry in originals.files.items():
        names.add(name)
        place = f"{name}{ENDING}" if entry.form == "zst" else name
        known.add(place)
        if is_rewritten(name):
            continue
        if place in stored:
            found += _laid_out(stored[place], into / name, name, entry)
        else:
            found.append(Mismatch(name, "file", f"{place} of the export", None))
    for name in sorted(stored.keys() - {ORIGINALS, EXPORT_SUMS}):
        if is_rewritten(name):
            if name not in originals.files:
                names.add(name)
            shutil.copyfile(stored[name], _place(into / name))
        elif name not in known:
            found.append(Mismatch(name, "file", None, "added"))
    shutil.copyfile(stored[ORIGINALS], _place(into / ORIGINALS))
    return into, found


def is_rewritten(name: str) -> bool:
    """True for verdict and report, which an export holds as they follow from its redacted evidence."""
    return name.partition("/")[0] in REWRITTEN


def note(originals: Originals) -> str:
    """What a reader must know about the hashes of an export; verdict and report, which are derived, not counted."""
    evidence = [entry for entry in originals.files.values() if not entry.derived]
    redacted = sum(bool(entry.redactions) for entry in evidence)
    if not redacted:
        return f"Nothing was redacted: all {len(evidence)} files are the original's, and their hashes are checked."
    return (
        f"{redacted} of {len(evidence)} files were redacted: their originals' hashes, and that nothing but private "
        "words was changed in them, can only be checked by whoever holds the original. The other "
        f"{len(evidence) - redacted} files are the original's, and their hashes are checked."
    )


def _stored(root: Path) -> Iterator[tuple[str, Path]]:
    names = Names(2 * MOST_FILES)
    for folder, folders, files in os.walk(root):
        for name in sorted((*folders, *files)):
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise RefusedBundle(f"{printable(relative)}: is no plain file; an export holds nothing else")
            names.add(relative, folder=path.is_dir())
            if path.is_file():
                yield relative, path


def _against_sums(root: Path, stored: Mapping[str, Path]) -> Iterator[Mismatch]:
    if EXPORT_SUMS not in stored or stored[EXPORT_SUMS].stat().st_size > LARGEST_BYTES:
        raise RefusedBundle(f"{root}: {EXPORT_SUMS} is missing, or longer than that of any bundle")
    said: dict[str, str] = {}
    try:
        lines = stored[EXPORT_SUMS].read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise RefusedBundle(f"{root}: {EXPORT_SUMS} is no text") from None
    for line in lines:
        digest, _, name = line.partition("  ")
        if name in said:
            raise RefusedBundle(f"{EXPORT_SUMS}: {printable(name)} stands there twice")
        said[name] = digest
    for name in sorted(said.keys() | (stored.keys() - {EXPORT_SUMS})):
        found = _sha256(stored[name]) if name in stored else None
        if said.get(name) != found:
            yield Mismatch(name, "SHA-256 in the export", said.get(name), found)


def _refuse_sizes(originals: Originals) -> None:
    if len(originals.files) > MOST_FILES:
        raise RefusedBundle(f"{ORIGINALS}: names {len(originals.files):,} files, more than {MOST_FILES:,}")
    total = sum(entry.size for entry in originals.files.values())
    if total > MOST_BYTES:
        raise RefusedBundle(f"{ORIGINALS}: the bundle would have {total:,} bytes, more than {MOST_BYTES:,}")


def _laid_out(stored: Path, target: Path, name: str, entry: OriginalFile) -> Iterator[Mismatch]:
    """Write one file, and compare it with what is said of it."""
    # A redacted parquet file was packed anew, so its size is another one; it lies there as it is.
    is_as_long = entry.form == "zst" or entry.unchanged or not name.endswith(".parquet")
    limit = entry.size if is_as_long else stored.stat().st_size
    digest, size = hashlib.sha256(), 0
    with _opened(stored, entry) as source, _place(target).open("xb") as copy:
        for chunk in _chunks(source, name):
            size += len(chunk)
            if size > limit:
                raise RefusedBundle(f"{name}: unpacks to more than the {limit:,} bytes that {ORIGINALS} says")
            digest.update(chunk)
            copy.write(chunk)
    if is_as_long and size != entry.size:
        yield Mismatch(name, "size", f"{entry.size} bytes", f"{size} bytes")
    if entry.unchanged and digest.hexdigest() != entry.sha256:
        yield Mismatch(name, "SHA-256", entry.sha256, digest.hexdigest())


def _opened(stored: Path, entry: OriginalFile) -> IO[bytes]:
    stream = stored.open("rb")
    if entry.form == "raw":
        return stream
    import zstandard  # noqa: PLC0415  # only what unpacks needs it

    unpacking = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG)
    return unpacking.stream_reader(stream, read_across_frames=False, closefd=True)


def _chunks(source: IO[bytes], name: str) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415

    try:
        while chunk := source.read(CHUNK_BYTES):
            yield chunk
    except zstandard.ZstdError as e:
        raise RefusedBundle(f"{name}{ENDING}: cannot be unpacked: {e}") from None


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
