"""Unpack a bundle that a stranger packed: each member is looked at before a byte of it is written.

What comes out are plain files and folders below one new folder, of bounded number and size. Links, devices,
names that lead elsewhere and members that grow too much are refused; nothing is left out in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.errors import RefusedBundle
from harness.evidence.names import Names, printable

CHUNK_BYTES = 1 << 18


@dataclass(frozen=True)
class Limits:
    """How much an archive may hold."""

    members: int = 50_000
    """Files and folders; a session of 50 launches has some 10,000."""
    bytes: int = 8 << 30
    """Of all files together."""
    ratio: int = 500
    """Bytes that come out per byte of the archive, beyond the first `free_bytes`. Scrapes of one server repeat each
    other and come to about 100; a bomb of deflate has 1,000, one of zstd more than 10,000."""
    free_bytes: int = 64 << 20


class Readable(Protocol):
    """What the bytes of a member are read from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""
        ...


class Budget:
    """Bytes that may still come out of an archive."""

    def __init__(self, limits: Limits, packed_bytes: int) -> None:
        by_ratio = max(limits.free_bytes, packed_bytes * limits.ratio)
        self._left = min(limits.bytes, by_ratio)
        by_size = limits.bytes <= by_ratio
        self._why = f"{limits.bytes:,} bytes" if by_size else f"{limits.ratio} times the archive's size"

    def take(self, size: int, name: str) -> None:
        """Count bytes.

        Raises:
            RefusedBundle: there are too many.
        """
        self._left -= size
        if self._left < 0:
            raise RefusedBundle(
                f"{printable(name)}: the archive unpacks to more than {self._why}; unpack it yourself, look at it, and "
                "give the folder"
            )


class Target:
    """The new folder that members are written into."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self._root = root
        self._names = Names(limits.members)

    def folder(self, name: str) -> None:
        """A member that is a folder."""
        self._names.add(name, folder=True)
        (self._root / name).mkdir(parents=True, exist_ok=True)

    def file(self, name: str, size: int, content: Readable) -> None:
        """A member that is a file of `size` bytes.

        Raises:
            RefusedBundle: its name may not be, or it has another size than the archive says.
        """
        self._names.add(name)
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:
            for chunk in _chunks(content, size):
                written += len(chunk)
                stream.write(chunk)
        if written != size:
            raise RefusedBundle(f"{name}: the archive says {size:,} bytes and holds {written:,}; it is damaged")


def _chunks(content: Readable, size: int) -> Iterator[bytes]:
    left = size
    while left > 0 and (chunk := content.read(min(CHUNK_BYTES, left))):
        left -= len(chunk)
        yield chunk


def unpack(archive: Path, into: Path, limits: Limits | None = None) -> None:
    """Unpack a .tar.zst, .tar.gz or .zip into an empty folder.

    Raises:
        RefusedBundle: it is no such archive, damaged, or holds what no bundle holds.
    """
    from harness.evidence.unpack_tar import unpack_tar  # noqa: PLC0415  # their libraries, only where they are needed
    from harness.evidence.unpack_zip import unpack_zip  # noqa: PLC0415

    limits = limits or Limits()
    budget, target = Budget(limits, archive.stat().st_size), Target(into, limits)
    with archive.open("rb") as stream:
        head = stream.read(4)
        stream.seek(0)
        if head == b"PK\x03\x04":
            unpack_zip(stream, target, budget, limits)
        elif head == b"\x28\xb5\x2f\xfd" or head[:2] == b"\x1f\x8b":
            unpack_tar(stream, target, budget, zstd=head[:1] == b"\x28")
        else:
            raise RefusedBundle(f"{archive}: is no .tar.zst, .tar.gz or .zip; give one, or the folder of a session")
