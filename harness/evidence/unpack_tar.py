"""Tar archives. Python's tarfile reads the headers; what it may read at once, and what comes of it, is bounded here."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from typing import BinaryIO, cast

import zstandard

from harness.errors import RefusedBundle
from harness.evidence.names import printable
from harness.evidence.unpack import CHUNK_BYTES, Budget, Readable, Target

WINDOW_BYTES = 1 << 25
"""Memory that a zstd frame may ask for; level 19 asks for 8 MiB."""
HEADER_BYTES = 1 << 20
"""Of a long name or a table of attributes: tarfile reads it at once."""

KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
}


class _Forward:
    """The unpacked stream as tarfile wants it: it only ever seeks forward, and each byte that comes out is counted."""

    def __init__(self, stream: Readable, budget: Budget) -> None:
        self._stream = stream
        self._budget = budget
        self._place = 0
        self.member = "the archive"

    def tell(self) -> int:
        return self._place

    def seek(self, place: int) -> int:
        while self._place < place and self.read(min(CHUNK_BYTES, place - self._place)):
            pass
        return self._place

    def read(self, size: int) -> bytes:
        if not 0 <= size <= HEADER_BYTES:
            raise RefusedBundle(f"{printable(self.member)}: a header of {size:,} bytes follows it; no bundle has one")
        parts = []
        while size > 0 and (part := self._stream.read(size)):
            size -= len(part)
            self._place += len(part)
            self._budget.take(len(part), self.member)
            parts.append(part)
        return b"".join(parts)


def unpack_tar(stream: BinaryIO, target: Target, budget: Budget, *, zstd: bool) -> None:
    """Unpack a compressed tar archive.

    Raises:
        RefusedBundle: it is damaged, or holds something else than files and folders.
    """
    unpacked: Readable
    if zstd:
        decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        unpacked = decompressor.stream_reader(stream, read_across_frames=True)
    else:
        unpacked = gzip.GzipFile(fileobj=stream)
    forward = _Forward(unpacked, budget)
    try:
        with tarfile.open(fileobj=cast("BinaryIO", forward), mode="r:") as archive:
            while (member := archive.next()) is not None:
                _write(member, archive, target, forward)
                archive.members.clear()  # type: ignore[attr-defined]  # or it remembers every one
        forward.member = "the end of the archive"
        while rest := forward.read(CHUNK_BYTES):  # the rest of the stream, with the checksums at its end
            if rest.strip(b"\0"):
                raise ValueError("something follows its last member")
    except (tarfile.TarError, zstandard.ZstdError, zlib.error, EOFError, OSError, ValueError, IndexError) as e:
        raise RefusedBundle(
            f"{printable(forward.member)}: the archive is damaged at or after it ({e}); fetch it again"
        ) from None


def _write(member: tarfile.TarInfo, archive: tarfile.TarFile, target: Target, forward: _Forward) -> None:
    forward.member = member.name
    if member.isdir():
        if member.name.rstrip("/") not in ("", "."):
            target.folder(_plain(member.name))
        return
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.sparse is not None:
        kind = KINDS.get(member.type, "neither a file nor a folder")
        raise RefusedBundle(f"{printable(member.name)}: is {kind}; a bundle holds files only, so pack it again")
    content = archive.extractfile(member)
    assert content is not None, "it is a regular file"
    target.file(_plain(member.name), member.size, content)


def _plain(name: str) -> str:
    """`tar -C bundle .` writes `./` before every name."""
    return name.removeprefix("./").rstrip("/")
