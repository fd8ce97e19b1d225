"""Every file that the harness writes, read strictly: the first thing in each that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from harness.errors import BundleError, ConfigError
from harness.evidence.bundle import read_lines, read_record
from harness.evidence.mismatch import Mismatch
from harness.evidence.strict_json import parse
from harness.forge.truth import load_rule_file
from harness.judge.read import read_listings
from harness.judge.samples import read_columns
from harness.stack.reading import parse_lock
from harness.verification.files import FileKind, Form, kind_of
from harness.verification.subject import Found, Subject


def check_schema(subject: Subject) -> Found:
    """Each file against what it should hold."""
    mismatches, seen = [], 0
    for name in subject.files:
        kind = kind_of(name)
        if kind is None or kind.form not in READERS:
            continue
        if kind.form is Form.LOCK and name in subject.originals:
            continue  # its own hash is that of the original
        seen += 1
        path = subject.root / name
        try:
            READERS[kind.form](path, kind)
        except (BundleError, ConfigError, ValueError) as e:
            place, what = _placed(str(e).removeprefix(str(path)))
            mismatches.append(Mismatch(name, place, kind.record.__name__ if kind.record else str(kind.form), what))
    return Found(tuple(mismatches), (f"{seen} files hold the records that their names promise",))


def _placed(message: str) -> tuple[str, str]:
    """Where in its file a reader found the fault, and the fault."""
    head, colon, rest = message.removeprefix(":").strip().partition(": ")
    return (f"line {head}", rest) if colon and head.isdecimal() else ("content", message.removeprefix(":").strip())


def _record(path: Path, kind: FileKind) -> None:
    parse(path.read_bytes())
    assert kind.record is not None
    read_record(path, kind.record)


def _lines(path: Path, kind: FileKind) -> None:
    assert kind.record is not None
    for number, _ in enumerate(read_lines(path, kind.record), 1):
        del number
    for number, line in _whole_lines(path):
        try:
            parse(line)
        except ValueError as e:
            raise ValueError(f"{number}: {e}") from None


def _times(path: Path, _: FileKind) -> None:
    """Both the bytes and the time of arrival only ever rise."""
    before = [-1, -1]
    for number, line in _whole_lines(path):
        row = parse(line)
        if not (isinstance(row, list) and len(row) == 2 and all(type(x) is int for x in row)):
            raise ValueError(f"{number}: not a row of two integers")
        if row[0] < before[0] or row[1] < before[1]:
            raise ValueError(f"{number}: {row} comes before {before}")
        before = row


def _whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with their number; a torn last one is what a killed harness left."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if line.endswith(b"\n"):
                yield number, line


def _json(path: Path, _: FileKind) -> None:
    tree = parse(path.read_bytes())
    if not isinstance(tree, (dict, list)):
        raise ValueError("neither an object nor a list")  # noqa: TRY004  # a file is wrong, no argument
    if path.name == "caches.json":
        read_listings(path)


def _truth(path: Path, _: FileKind) -> None:
    parse(path.read_bytes())
    load_rule_file(path)


def _lock(path: Path, _: FileKind) -> None:
    parse(path.read_bytes())
    parse_lock(path)


def _samples(path: Path, kind: FileKind) -> None:
    read_columns(path, kind.types)


READERS: dict[Form, Callable[[Path, FileKind], None]] = {
    Form.RECORD: _record,
    Form.JSON: _json,
    Form.TRUTH: _truth,
    Form.LOCK: _lock,
    Form.LINES: _lines,
    Form.TIMES: _times,
    Form.SAMPLES: _samples,
}
"""Scrapes and traces are a server's own words, torn ones too: the judge says what it could not read of them."""
