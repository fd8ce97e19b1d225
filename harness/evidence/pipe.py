"""What passes through the harness's hands on its way into a bundle, noted before it can be changed on the disk.

Every process that writes evidence keeps a journal of its own in the bundle, `pipe/*.jsonl`. A line tells the
SHA-256 that a file has after a write, taken from the bytes in memory and never by reading the file, and the
SHA-256 of the line before it, so no line can be taken out or changed alone. `harness.evidence.journal` reads
the journals again and names every file that is not what they say.

A path that lies in no bundle with such a folder is written all the same, and nothing is noted. A line is
handed to the kernel before its bytes are, so it outlives the process; it is on the disk with the next file
that is closed, and at the sealing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import BundleError
from harness.evidence.undivided import uninterrupted

FOLDER = "pipe"
MANIFEST = "SHA256SUMS"
DERIVED = ("verdict.json", "report", MANIFEST, "ledger.end.json", "originals.json")
STATEMENTS = "statement."
"""How the names of the statements begin, which carry the root hash of the evidence and so are none of it."""
FIRST = "0" * 64
"""What stands for the line before the first one."""

Stamp = tuple[int, int, int, int]
_open: dict[Path, PipeJournal] = {}
_lock = threading.RLock()


@dataclass
class _Appended:
    """What a file of lines holds as far as this process knows, and how the disk looked then."""

    digest: Any
    stamp: Stamp


def is_derived(relative: Path) -> bool:
    """True for a file that anybody can make again from the evidence; its path is relative to the bundle."""
    return relative.parts[0] in DERIVED or relative.parts[0].startswith(STATEMENTS)


def begin(root: Path) -> None:
    """Make a bundle one whose files are noted; before anything is written into it."""
    (root / FOLDER).mkdir(parents=True)


def bundle_of(path: Path) -> tuple[Path, str] | None:
    """The bundle that a path is evidence of, and the path inside it; None where nothing is noted.

    Raises:
        BundleError: the bundle is sealed, so its evidence is written no more.
    """
    path = path.absolute()
    for root in path.parents:
        if (root / FOLDER).is_dir():
            relative = path.relative_to(root)
            if is_derived(relative):
                return None
            _refuse_sealed(root, path)
            return root, relative.as_posix()
    return None


def _refuse_sealed(root: Path, path: Path) -> None:
    if (root / MANIFEST).exists():
        raise BundleError(f"{path}: the bundle is sealed ({MANIFEST}), so nothing of its evidence is written")


def wrote(path: Path, sha256: str, size: int, *, hashed: str | None = None) -> None:
    """Note a file that was, or is about to be, put in place whole.

    Args:
        path: The file.
        sha256: Of its bytes, in hex.
        size: In bytes.
        hashed: When the hash was taken, where that was not while the bytes were written.
    """
    if (place := bundle_of(path)) is not None:
        op = "wrote" if hashed is None else "found"
        journal(place[0]).note(op, place[1], bytes=size, sha256=sha256, hashed=hashed)


def failed(path: Path, error: OSError) -> None:
    """Note that what was noted last of a file did not come to be."""
    if (place := bundle_of(path)) is not None:
        journal(place[0]).note("failed", place[1], error=os.strerror(error.errno or 0))


def removed(path: Path) -> None:
    """Remove a file that was only kept until it is there in another form, and note that."""

    def work() -> None:
        place = bundle_of(path)
        path.unlink()
        if place is not None:
            journal(place[0]).note("removed", place[1])

    uninterrupted(work)


def append(path: Path, data: bytes) -> None:
    """Append to a file of lines; one that is not as the last append left it is named in the journal."""
    uninterrupted(lambda: _append(path, data))


def _append(path: Path, data: bytes) -> None:
    place = bundle_of(path)
    with path.open("ab", buffering=0) as stream:
        if place is None:
            write_all(stream.fileno(), data)
            return
        with contextlib.suppress(OSError):  # a disk that knows no locks: one worker per launch is the rule
            fcntl.flock(stream, fcntl.LOCK_EX)  # another worker's check may tell of the same launch
        journal(place[0]).append(place[1], path, stream, data)


def journal(root: Path) -> PipeJournal:
    """This process's journal of a bundle."""
    return uninterrupted(lambda: _journal(root))


def _journal(root: Path) -> PipeJournal:
    with _lock:  # never taken by the main thread: the collector may come to it there, and want it again
        known = _open.get(root)
        if known is None or known.pid != os.getpid() or not known.path.exists():
            known = _open[root] = PipeJournal(root)
        return known


def close(root: Path, how: str) -> None:
    """Write the last line: how the session ended. Nothing is noted after it."""
    last = journal(root)
    last.note("sealed", "", hashed=how)
    last.sync()
    uninterrupted(lambda: _forget(root))


def _forget(root: Path) -> None:
    with _lock:
        _open.pop(root, None)


def put(path: Path, sha256: str, size: int, move: Callable[[], object], *, hashed: str | None = None) -> None:
    """Note a whole file and move it to its place.

    Raises:
        OSError: it could not be moved, which is noted, too.
    """

    def work() -> None:
        wrote(path, sha256, size, hashed=hashed)
        try:
            move()
        except OSError as e:
            failed(path, e)
            raise

    uninterrupted(work)


class PipeJournal:
    """One process's journal of one bundle."""

    def __init__(self, root: Path) -> None:
        """Begin it.

        Raises:
            BundleError: the bundle is sealed.
        """
        _refuse_sealed(root, root)
        self.pid = os.getpid()
        self.root = root
        self.path = root / FOLDER / f"{time.monotonic_ns()}-{self.pid}.jsonl"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        weakref.finalize(self, os.close, descriptor)
        self._descriptor = descriptor
        self._size = 0
        self._previous = FIRST
        self._appended: dict[str, _Appended] = {}
        self.known: set[str] = set()
        """Files that this process has noted anything of."""

    def note(self, op: str, file: str, **values: str | int | None) -> None:
        """Add a line.

        Raises:
            BundleError: the bundle is sealed.
        """
        uninterrupted(lambda: self._note(op, file, values))

    def _note(self, op: str, file: str, values: Mapping[str, str | int | None]) -> None:
        _refuse_sealed(self.root, self.root / file)
        given = {name: value for name, value in values.items() if value is not None}
        with _lock:
            line: dict[str, object] = {"op": op, "file": file, "mono_ns": time.monotonic_ns(), **given}
            data = (json.dumps(line | {"previous": self._previous}) + "\n").encode()
            _append_all(self._descriptor, data, self._size)
            self._size += len(data)
            self._previous = hashlib.sha256(data).hexdigest()
            self.known.add(file)

    def sync(self) -> None:
        """Wait until every line is on the disk."""
        os.fsync(self._descriptor)

    def append(self, file: str, path: Path, stream: Any, data: bytes) -> None:
        """Note what a file will hold, and append to it."""
        with _lock:
            before = self._as_left(file, path, stream)
            size = os.fstat(stream.fileno()).st_size
            digest = before.copy()
            digest.update(data)
            self.note("appended", file, added=len(data), bytes=size + len(data), sha256=digest.hexdigest())
            try:
                _append_all(stream.fileno(), data, size)
            except OSError as e:
                digest = before
                with contextlib.suppress(OSError):
                    self.note("failed", file, error=os.strerror(e.errno or 0))
                raise
            finally:
                self._appended[file] = _Appended(digest, _stamp(stream))

    def _as_left(self, file: str, path: Path, stream: Any) -> Any:
        """The running hash of what the file holds, after a look at whether it is as it was left.

        The look compares place, size and times; what escapes it (a rewrite of the same length within one
        tick of the kernel's clock) is found at the sealing.
        """
        known = self._appended.get(file)
        now = _stamp(stream)
        if known is not None and known.stamp == now:
            return known.digest
        if known is None and not now[1]:
            return hashlib.sha256()
        on_disk = hashlib.sha256()
        with path.open("rb") as reader:
            while piece := reader.read(1 << 20):
                on_disk.update(piece)
        found = on_disk.hexdigest()
        if found not in (known.digest.hexdigest() if known else None, _last_of(self.root, file)):
            self.note("changed", file, bytes=now[1], sha256=found)
        return on_disk


def _last_of(root: Path, file: str) -> str | None:
    """The hash that any process noted last of a file."""
    hashes = [line.get("sha256") for line in lines_of(root, file)]
    return hashes[-1] if hashes else None


def lines_of(root: Path, *files: str) -> list[dict[str, Any]]:
    """What any process has noted of some files, in the order of its happening."""
    names = [json.dumps(file).encode() for file in files]
    found = []
    for path in (root / FOLDER).glob("*.jsonl"):
        with path.open("rb") as stream:
            for data in stream:
                if data.endswith(b"\n") and any(name in data for name in names):
                    with contextlib.suppress(ValueError):  # somebody was at it: the chain says so in the end
                        found.append(json.loads(data))
    return sorted((line for line in found if line["file"] in files), key=lambda line: int(line["mono_ns"]))


def file_digest(path: Path) -> tuple[str, int]:
    """SHA-256 in hex, and size in bytes, of a file as it lies on the disk."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return digest, stream.tell()


def _stamp(stream: Any) -> Stamp:
    found = os.fstat(stream.fileno())
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def write_all(descriptor: int, data: bytes) -> None:
    """Write the whole of it: a disk with little space left takes a part without an error, and refuses the rest."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _append_all(descriptor: int, data: bytes, size: int) -> None:
    """Append all of it to a file of `size` bytes, or none: a part would be taken for the next line's beginning."""
    try:
        write_all(descriptor, data)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise
