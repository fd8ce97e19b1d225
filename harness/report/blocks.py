"""A Markdown text that must stay below a size: what does not fit is left out whole, and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LIMIT = 64_000
"""GitHub refuses a comment of more than 65,536 characters; the rest is for a publisher's marker."""

ROOM_FOR_NOTE = 1_500


@dataclass(frozen=True)
class Block:
    """A part of the text whose items can be left out from the end, and whose frame cannot."""

    name: str
    """What is said to be missing when something of it is."""
    items: tuple[str, ...]
    """Each stands for itself: a table's row, a list's item, a paragraph, a whole fenced block."""
    head: str = ""
    foot: str = ""


def fitted(blocks: Sequence[Block], closing: Block, limit: int = LIMIT) -> str:
    """Blocks in order, cut where the limit is reached; then what was cut, and the closing block.

    The closing block keeps its place unless it is itself too long, since what is not claimed must
    not be the first thing to go.
    """
    parts: list[str] = []
    missing: list[str] = []
    last = _text(closing, closing.items)
    if length(last) > limit // 4:
        blocks, last = [*blocks, closing], ""
    room = limit - ROOM_FOR_NOTE - length(last)
    for block in blocks:
        kept = [] if missing else _fitting(block, room)
        if len(kept) < len(block.items):
            missing.append(f"{block.name} ({len(block.items) - len(kept)} of {len(block.items)})")
        if kept:
            parts.append(_text(block, kept))
            room -= length(parts[-1])
    if missing:
        parts.append(
            f"\n**Cut: this text has a limit of {limit:,} characters.** Not shown: {', '.join(missing)}. "
            "report.html in the bundle holds everything.\n"
        )
    return "".join([*parts, last])


def _fitting(block: Block, room: int) -> list[str]:
    kept = []
    room -= length(block.head) + length(block.foot)
    for item in block.items:
        room -= length(item)
        if room < 0:
            break
        kept.append(item)
    return kept


def _text(block: Block, items: Sequence[str]) -> str:
    return "".join([block.head, *items, block.foot])


def length(text: str) -> int:
    """Size as GitHub may count it: in UTF-16 units, of which a rare character takes two."""
    return len(text.encode("utf-16-le")) // 2
