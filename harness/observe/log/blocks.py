r"""Bytes as they come, cut into blocks of whole pieces of lines.

A piece ends at `\n` or `\r`: progress bars end in `\r`, and what another process wrote between two states
of a bar is as much a message as any other. A piece that nobody ended says nothing, so that a log that was
cut anywhere gives the first of its events and no other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BLOCK_BYTES = 1 << 18
PIECE_BYTES = 1 << 16
"""What is kept of one piece; the longest line that a real log had is 13 kB."""


@dataclass(frozen=True)
class Block:
    """Whole pieces of a log."""

    data: bytes
    """Ends in `\n` or `\r`."""
    offset: int
    """Of its first byte in the log."""
    line: int
    """Number of the line that its first byte belongs to, from 1."""
    skipped: int = 0
    """Bytes left out before the last one: then the block is one piece, longer than `PIECE_BYTES`."""


def blocks(chunks: Iterable[bytes]) -> Iterator[Block]:
    """Blocks of a log; memory is bounded whatever the chunks' and the lines' lengths are."""
    offset, line, rest, skipped = 0, 1, b"", 0
    for part in _parts(chunks):
        data = rest + part
        if skipped:  # the end of a piece that is too long to be kept
            end = _first_end(part) + 1
            if not end:
                skipped += len(part)
                continue
            block = Block(rest + part[end - 1 : end], offset, line, skipped + end - 1)
            yield block
            offset, line = offset + len(block.data) + block.skipped, line + block.data.count(b"\n")
            data, skipped = part[end:], 0
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if cut:
            yield Block(data[:cut], offset, line)
            line += data.count(b"\n", 0, cut)
            offset += cut
        rest = data[cut:]
        if len(rest) > PIECE_BYTES:
            rest, skipped = rest[:PIECE_BYTES], len(rest) - PIECE_BYTES


def _first_end(data: bytes) -> int:
    ends = [at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0]
    return min(ends, default=-1)


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in parts that are neither tiny nor huge."""
    gathered: list[bytes] = []
    size = 0
    for chunk in chunks:
        for begin in range(0, len(chunk), BLOCK_BYTES):
            part = chunk[begin : begin + BLOCK_BYTES]
            gathered.append(part)
            size += len(part)
            if size >= BLOCK_BYTES:
                yield b"".join(gathered)
                gathered.clear()
                size = 0
    if size:
        yield b"".join(gathered)
