"""Blocks -> the few pieces of lines that may say something, found by words that cannot be missing.

A log is mostly access lines and progress bars. Looking for a form's word in a whole block costs a fraction of
a nanosecond per byte; only lines that hold one are taken apart, and only by the forms whose word they hold.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from harness.observe.log.blocks import PIECE_BYTES, Block
from harness.observe.log.records import ANSI

_PIECE = re.compile(rb"[^\r\n]*[\r\n]")


class Piece(NamedTuple):
    """A piece of a line that holds at least one of the words."""

    data: bytes
    """At most `PIECE_BYTES` of it, as it stands in the log."""
    offset: int
    end_offset: int
    line: int
    words: int
    """A bit for each word that it holds, by its place in the list."""


def pieces(block: Block, words: Sequence[bytes]) -> Iterator[Piece]:
    """Pieces of a block that hold any of the words, in order."""
    data = block.data
    # A colour can stand in the middle of a word: the words are looked for without colours.
    clean = ANSI.sub(b"", data) if b"\x1b" in data else data
    find, rfind = clean.find, clean.rfind
    carriages = b"\r" in clean
    hits: dict[int, int] = {}
    ends: dict[int, int] = {}
    for place, word in enumerate(words):
        mask, at = 1 << place, find(word)
        while at >= 0:
            begin = rfind(b"\n", 0, at) + 1
            if carriages:
                begin = max(begin, rfind(b"\r", begin, at) + 1)
            if begin in hits:
                hits[begin] |= mask
            else:
                hits[begin] = mask
                ends[begin] = _end(clean, at, carriages=carriages)
            at = find(word, ends[begin])
    if not hits:
        return
    spans = None if clean is data else _Spans(data, clean)
    line, counted = block.line, 0
    for begin in sorted(hits):
        low, high = (begin, ends[begin]) if spans is None else spans.of(begin)
        line += data.count(b"\n", counted, low)
        counted = low
        yield Piece(
            data[low : min(high, low + PIECE_BYTES)],
            block.offset + low,
            block.offset + high + block.skipped,
            line,
            hits[begin],
        )


def _end(data: bytes, at: int, *, carriages: bool) -> int:
    end = data.find(b"\n", at)
    end = len(data) if end < 0 else end + 1
    carriage = data.find(b"\r", at, end) if carriages else -1
    return end if carriage < 0 else carriage + 1


class _Spans:
    """Where the pieces of a block lie with their colours, by where they begin without them."""

    def __init__(self, data: bytes, clean: bytes) -> None:
        # Colours hold no line ends: both have the same pieces.
        self._clean = [0, *accumulate(map(len, _PIECE.findall(clean)))]
        self._data = [0, *accumulate(map(len, _PIECE.findall(data)))]

    def of(self, begin: int) -> tuple[int, int]:
        at = bisect_right(self._clean, begin) - 1
        return self._data[at], self._data[at + 1]
