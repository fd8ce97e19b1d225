"""The pipe's journals read again: what every file should hold, and which ones do not.

Pure but for reading `pipe/*.jsonl`; what the files hold now is given by whoever asks, so that the judge,
the sealing and `qualify verify` say the same. Lines of several processes are put in order by the host's
monotonic clock, which all of them share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from harness.evidence.mismatch import Mismatch
from harness.evidence.pipe import FIRST, FOLDER
from harness.records import Record

EMPTY = hashlib.sha256().hexdigest()
LINE_BYTES = 1 << 16
"""A longer line is none of ours: a file name has at most 4,096 bytes."""


class Line(Record):
    """One line of a journal."""

    op: Literal["opened", "closed", "appended", "wrote", "found", "removed", "changed", "failed", "sealed"]
    """`found` is a file that others wrote, `changed` one that was not as the last append had left it."""
    file: str
    """Path in the bundle; '' for the last line of a session, whose `hashed` says how it ended."""
    mono_ns: int
    bytes: int | None = Field(None, ge=0)
    """Size of the file after it."""
    added: int | None = Field(None, ge=0)
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """Of the whole file after it."""
    hashed: str | None = None
    """When the hash was taken, where that was not while the bytes were written."""
    error: str | None = None
    previous: str = Field(pattern="^[0-9a-f]{64}$")
    """SHA-256 of the line before, its line end included."""


@dataclass(frozen=True)
class Fault:
    """One way in which the evidence is not what passed through the pipe."""

    file: str
    what: str
    tampered: bool = True
    """False where the measurement itself broke, as on a full disk."""
    noted: str | None = None
    """SHA-256 that the pipe noted of the file; None where it noted none."""
    found: str | None = None
    """SHA-256 of the file as it is; None where it is missing."""

    def __str__(self) -> str:
        """`launches/001-.../server.log is not what the pipe saw`."""
        return f"{self.file} {self.what}"


@dataclass
class Known:
    """What the journals say of one file."""

    sha256: str | None = None
    """None while it is open, and once it is removed."""
    size: int = 0
    before: tuple[str, int] | None = None
    """SHA-256 and size before its last write: all that there is of it where the process was killed in between."""
    state: Literal["whole", "open", "removed", "broken"] = "whole"
    hashed: str | None = None


@dataclass
class Seen:
    """Everything that the journals of a bundle say."""

    files: dict[str, Known] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    ended: str | None = None
    """How the session ended, in the words of the sealing; None where it was not sealed."""


def read_journals(root: Path) -> Seen | None:
    """What the journals say, with what is wrong with them; None for a bundle of before there were any."""
    if not (root / FOLDER).is_dir():
        return None
    seen, lines = Seen(), []
    for path in sorted((root / FOLDER).glob("*.jsonl")):
        name = f"{FOLDER}/{path.name}"
        try:
            lines += list(_lines(path))
        except ValueError as e:
            seen.faults.append(Fault(name, str(e)))
    for line in sorted(lines, key=lambda line: line.mono_ns):
        _take(seen, line)
    return seen


def faults(seen: Seen, digests: Mapping[str, str]) -> list[Fault]:
    """Files that are not what passed through the pipe, in the order of their names after what the journals tell.

    Args:
        seen: What the journals say.
        digests: SHA-256 of every file of the evidence as it is now, by its path in the bundle.
    """
    now = {name: digest for name, digest in digests.items() if not name.startswith(f"{FOLDER}/")}
    return [*seen.faults, *(f for n in sorted(now.keys() | seen.files.keys()) for f in _fault(seen, n, now.get(n)))]


def check_journals(root: Path, digests: Mapping[str, str]) -> list[Mismatch]:
    """The same as mismatches; none for a bundle of before there were journals.

    Args:
        root: The bundle.
        digests: SHA-256 by file, as for `faults`.
    """
    seen = read_journals(root)
    found = [] if seen is None else faults(seen, digests)
    return [
        Mismatch(f.file, "SHA-256", f.noted, f.found)
        if f.noted or f.found
        else Mismatch(f.file, "journal", "written whole, by the harness alone", f"one that {f.what}")
        for f in found
    ]


def _fault(seen: Seen, name: str, digest: str | None) -> Iterator[Fault]:
    known = seen.files.get(name)
    if known is None:
        yield Fault(name, "was not written by the harness: nobody noted it", found=digest)
    elif known.state == "broken":
        return  # its fault was told when the write failed
    elif known.state == "removed":
        if digest is not None:
            yield Fault(name, "is there again, though the harness had removed it", found=digest)
    elif digest is None:
        yield Fault(name, "has vanished since it was written", noted=known.sha256)
    elif known.state == "open":
        yield Fault(name, "was never closed by what wrote it, so its end may be missing", tampered=False)
    elif known.sha256 != digest:
        why = "is not what the harness wrote: a byte has changed since"
        yield Fault(name, why, noted=known.sha256, found=digest)


def _lines(path: Path) -> Iterator[Line]:
    previous = FIRST
    with path.open("rb") as stream:
        number = 0
        while data := stream.readline(LINE_BYTES):
            number += 1
            if not data.endswith(b"\n"):
                if stream.read(1):
                    raise ValueError(f"line {number} is longer than {LINE_BYTES} bytes")
                return  # torn by a kill
            try:
                line = Line.model_validate_json(data)
            except ValidationError as e:
                fault = e.errors(include_url=False)[0]
                where = ".".join(map(str, fault["loc"])) or "it"
                raise ValueError(f"line {number} is no line of a journal: `{where}`: {fault['msg']}") from None
            if line.previous != previous:
                raise ValueError(f"line {number} does not follow the one before it: a line was changed or taken out")
            previous = hashlib.sha256(data).hexdigest()
            yield line


def _take(seen: Seen, line: Line) -> None:
    if line.op == "sealed":
        seen.ended = line.hashed or ""
        return
    known = seen.files.setdefault(line.file, Known(before=None))
    if line.op == "failed":
        why = f"could not be written whole: {line.error}"
        seen.faults.append(Fault(line.file, why, tampered=False))
        _restore(known)
    elif line.op == "changed":
        seen.faults.append(Fault(line.file, "was changed by somebody else between two appends of the harness"))
        known.sha256, known.size = line.sha256, line.bytes or 0
    elif line.op == "removed":
        known.state, known.sha256 = "removed", None
    elif line.op == "opened":
        known.state, known.sha256 = "open", None
    else:
        _write(seen, known, line)


def _write(seen: Seen, known: Known, line: Line) -> None:
    if line.op == "appended" and (known.size if known.sha256 else 0) + (line.added or 0) != line.bytes:
        seen.faults.append(Fault(line.file, "shrank or grew by itself between two appends of the harness"))
    if line.op == "closed" and line.error is not None:
        why = f"lacks its end, which could not be written: {line.error}"
        seen.faults.append(Fault(line.file, why, tampered=False))
    known.before = (known.sha256, known.size) if known.sha256 is not None else None
    known.state = "whole" if line.error is None else "broken"
    known.sha256, known.size, known.hashed = line.sha256, line.bytes or 0, line.hashed


def _restore(known: Known) -> None:
    """As it was before the write that failed, which may have left a part."""
    known.sha256, known.size = known.before or (EMPTY, 0)
    known.state = "broken"
