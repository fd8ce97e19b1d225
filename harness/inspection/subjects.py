"""Where logs are: files, packed files, standard input, launches, bundles."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from harness.errors import QualifyError

GZIP = b"\x1f\x8b"
STDIN = "-"
LOGS = ("server.log", "server.log.gz")


class NotALogError(QualifyError):
    """What is to be inspected is not there, or no line of it is vLLM's."""


@dataclass(frozen=True)
class Subject:
    """One log."""

    name: str
    """As it was given, or its place in a bundle."""
    path: Path | None
    """None for standard input."""
    launch: str | None = None
    """Its launch's name, where it is one of a bundle's."""


def subjects(place: str) -> list[Subject]:
    """The logs at a place: a file, `-`, a launch's folder, or a bundle.

    Raises:
        NotALogError: there is none.
    """
    if place == STDIN:
        return [Subject("-", None)]
    path = Path(place)
    if path.exists() and not path.is_dir():  # a pipe is no file and can be read
        return [Subject(place, path)]
    for name in LOGS:
        if (path / name).is_file():
            return [Subject(str(path / name), path / name)]
    found = sorted(p for name in LOGS for p in path.glob(f"launches/*/{name}"))
    if not found:
        what = "has no server.log and no launches/*/server.log" if path.is_dir() else "is not there"
        raise NotALogError(f"{place} {what}; give a log of vLLM, `-` for standard input, or the folder of a session")
    return [Subject(str(p), p, launch=p.parent.name) for p in found]


@contextmanager
def opened(subject: Subject) -> Iterator[BinaryIO]:
    """A log's bytes, unpacked where they are packed.

    Raises:
        NotALogError: they cannot be read.
    """
    try:
        with sys.stdin.buffer if subject.path is None else subject.path.open("rb") as stream:
            buffered = cast("BufferedReader", stream)
            packed = buffered.peek(len(GZIP))[: len(GZIP)] == GZIP
            yield cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if packed else buffered
    except (OSError, EOFError, zlib.error) as e:  # a broken gzip file may be any of them
        raise NotALogError(f"{subject.name} cannot be read: {e}") from None
