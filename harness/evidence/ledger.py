"""The session ledger: every session that was started on this host and how it ended, in a chain of hashes.

`$XDG_STATE_HOME/qualify/ledger.jsonl` (QUALIFY_LEDGER names another) gets two lines per session, one before its
first launch and one after its sealing, so that nobody can run until a good one comes and show that one alone.
A line's hash covers its number, the hash of the line before, and the hash of its content; so a bundle can prove
the place of the lines that concern it, without what other sessions' lines say. What it cannot do: whoever owns
the host can write a whole new ledger. Two bundles of one host show that, since the later one's chain then does
not hold the earlier one's head.

A chain that is broken refuses nothing, since the harness is not there to keep anybody from working; every report
says so from then on.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Literal

from pydantic import Field, ValidationError

from harness.config.model import Stack
from harness.errors import SetupFailure
from harness.records import SCHEMA_VERSION, Lock, Record

FIRST = "0" * 64
"""What stands for the line before the first one."""


class Content(Record):
    """What a line says."""

    event: Literal["started", "ended", "mended"]
    session: str = ""
    wall: str
    """UTC, ISO 8601, by this host's clock: nobody else vouches for it."""
    profile: str | None = None
    control: str | None = None
    """Identity of the arm's lock, see `lock_identity`."""
    candidate: str | None = None
    commit: str | None = None
    """Of the harness."""
    verdict: str | None = None
    """Word of the verdict; None where the judge did not speak."""
    exit_code: int | None = None
    root_sha256: str | None = None
    """Root hash of the evidence."""
    ended: str | None = None
    """`completed`, or `interrupted: ...`."""
    torn_sha256: str | None = None
    """Of the line before that a crash had cut off; it stays where it is."""
    torn_bytes: int | None = None

    @property
    def sha256(self) -> str:
        """Over the fields that are given, as JSON with sorted keys and no spaces."""
        given = self.model_dump(mode="json", exclude_none=True)
        return _sha256(json.dumps(given, sort_keys=True, separators=(",", ":")).encode())


class Entry(Record):
    """One line of the ledger."""

    number: int = Field(ge=1)
    previous: str
    content: Content
    sha256: str

    def fault(self, previous: str, number: int) -> str | None:
        """Why it does not follow on a line with this hash, as number `number`; None where it does."""
        if self.number != number:
            return f"has number {self.number} where {number} was to come"
        if self.previous != previous:
            return "does not follow the line before it"
        return None if self.sha256 == link(number, previous, self.content.sha256) else "is not what its hash says"


class LedgerProof(Record):
    """A part of the ledger (ledger.json, ledger.end.json): some lines whole, and of all the others their hash."""

    schema_version: Literal[1] = SCHEMA_VERSION
    first: int = Field(ge=1)
    """Number of the first line of `chain`."""
    previous: str
    """Hash of the line before that one; 64 zeros before the first of all."""
    chain: tuple[str, ...]
    """Per line the hash of its content, in order; the last one is the session's own line."""
    head: str
    """Hash of the last line."""
    entries: dict[int, Content]
    """By number: the lines that concern the session's locks, its own among them."""
    fault: str | None = None
    """Where the host's ledger is broken, as it was found; None where it is whole."""

    @property
    def own(self) -> int:
        """Number of the session's own line."""
        return self.first + len(self.chain) - 1


def ledger_path() -> Path:
    """Where this host's ledger lies."""
    if named := os.environ.get("QUALIFY_LEDGER"):
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state).absolute() / "qualify" / "ledger.jsonl"


def lock_identity(lock: Lock, stack: Stack) -> str:
    """What names an arm across sessions: image, stack lock, engine and model, wherever they lie on the host.

    An arm without a stack lock is what its flags, environment and model make it, so these are part of it then.
    """
    image = lock.image
    named = {
        "engine": lock.engine_version,
        "image": None if image is None else image.image_id,
        "lock": None if image is None else image.lock_sha256,
        "model": lock.model_sha256 or lock.model,
        "serve": None if image is not None and image.lock_sha256 else stack.model_dump(mode="json", include={"serve"}),
    }
    return _sha256(json.dumps(named, sort_keys=True, separators=(",", ":")).encode())


def link(number: int, previous: str, content_sha256: str) -> str:
    """Hash of a line."""
    return _sha256(f"{number}\n{previous}\n{content_sha256}\n".encode())


def enter(content: Content, *, since: Entry | None = None, path: Path | None = None) -> tuple[Entry, LedgerProof]:
    """Append a line, and prove its place since another one, or since the first of all.

    Of the lines in between the proof holds those with the same candidate whole, and their ends.

    Raises:
        SetupFailure: the ledger cannot be written.
    """
    path = path or ledger_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            entries, fault = _read(stream, mend=True)
            entry = _append(stream, entries[-1] if entries else None, content)
            os.fsync(stream.fileno())
    except OSError as e:
        raise SetupFailure(
            f"the session ledger {path} cannot be written: {e.strerror}; QUALIFY_LEDGER names another place"
        ) from None
    return entry, _proof([*entries, entry], since, fault)


def read_ledger(path: Path | None = None) -> tuple[list[Entry], str | None]:
    """Every line of this host's ledger, and where its chain is broken."""
    path = path or ledger_path()
    if not path.is_file():
        return [], None
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        return _read(stream)


def now() -> str:
    """This host's wall clock as the ledger has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _proof(entries: list[Entry], since: Entry | None, fault: str | None) -> LedgerProof:
    """Lines are numbered by their place: in a broken ledger their own numbers say nothing."""
    places = {e.sha256: place for place, e in enumerate(entries, 1)}
    after = 0 if since is None else places.get(since.sha256, 0)
    part = dict(enumerate(entries[after:], after + 1))
    own = entries[-1].content
    sessions = {own.session}
    if own.event == "started":
        sessions |= {e.content.session for e in part.values() if e.content.candidate == own.candidate}
    return LedgerProof(
        first=after + 1,
        previous=entries[after - 1].sha256 if after else FIRST,
        chain=tuple(e.content.sha256 for e in part.values()),
        head=entries[-1].sha256,
        entries={place: e.content for place, e in part.items() if e.content.session in sessions},
        fault=fault,
    )


def _read(stream: IO[bytes], *, mend: bool = False) -> tuple[list[Entry], str | None]:
    """All entries; with `mend`, a last line that a crash cut off is closed, and an entry says so."""
    stream.seek(0)
    data = stream.read()
    torn = data.rpartition(b"\n")[2]
    entries, fault = _chain(list(_parsed(data)))
    if torn and mend:
        stream.write(b"\n")
        said = Content(event="mended", wall=now(), torn_sha256=_sha256(torn), torn_bytes=len(torn))
        entries.append(_append(stream, entries[-1] if entries else None, said))
    return entries, fault


def _parsed(data: bytes) -> Iterator[Entry | bytes]:
    """Entries in their order; a line that is none as it stands."""
    for line in filter(None, data.split(b"\n")):
        try:
            yield Entry.model_validate_json(line)
        except ValidationError:
            yield line


def _chain(lines: list[Entry | bytes]) -> tuple[list[Entry], str | None]:
    """The entries, and the first place at which they do not follow on each other."""
    entries: list[Entry] = []
    fault: str | None = None
    for place, line in enumerate(lines):
        if isinstance(line, bytes):
            after = lines[place + 1] if place + 1 < len(lines) else None
            is_last, mended = after is None, isinstance(after, Entry) and after.content.torn_sha256 == _sha256(line)
            fault = fault or (None if is_last or mended else f"line {place + 1} is no entry")
            continue
        before = entries[-1] if entries else None
        wrong = line.fault(before.sha256 if before else FIRST, before.number + 1 if before else 1)
        fault = fault or (f"line {place + 1} {wrong}" if wrong else None)
        entries.append(line)
    return entries, fault


def _append(stream: IO[bytes], before: Entry | None, content: Content) -> Entry:
    number, previous = (before.number + 1, before.sha256) if before else (1, FIRST)
    sha256 = link(number, previous, content.sha256)
    entry = Entry(number=number, previous=previous, content=content, sha256=sha256)
    stream.write(entry.model_dump_json(exclude_none=True).encode() + b"\n")
    stream.flush()
    return entry


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
