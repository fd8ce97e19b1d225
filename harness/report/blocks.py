"""A Markdown text that must stay below a size: what does not fit is left out by whole blocks, and named."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

LIMIT = 56_000
"""Bytes of UTF-8. GitHub refuses a comment of more than 65,536 characters, whichever way it counts them: no way of
counting finds more than there are bytes. The rest is for what `qualify publish` puts around the text."""


@dataclass(frozen=True)
class Block:
    """A part of the text that is there as a whole or not at all."""

    name: str
    """What is said to be missing when it is."""
    text: str
    rank: int = 0
    """How little it would be missed; a block of rank 0 stays."""


def block(name: str, items: Sequence[str], head: str = "", foot: str = "", *, rank: int = 0) -> Block:
    """A block of items between a head and a foot; without an item, nothing."""
    return Block(name, "".join([head, *items, foot]) if items else "", rank)


def folded(title: str, text: str) -> str:
    """A block that opens on a click; the empty line lets Markdown stand inside HTML."""
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n\n"


def fitted(blocks: Sequence[Block], limit: int = LIMIT) -> str:
    """Blocks in order; those for which there is no room are named where the first of them would stand.

    Room goes to the lowest rank first, then to the earlier block. A block that is too long does not keep a shorter
    one of a higher rank out.

    Raises:
        ValueError: the blocks that stay are too long by themselves.
    """
    if length(_text(blocks, set())) <= limit:
        return _text(blocks, set())
    cut = {i for i, b in enumerate(blocks) if b.rank and b.text}
    if length(_text(blocks, cut)) > limit:
        raise ValueError(f"what must stay is longer than {limit:,} bytes")
    for i in sorted(cut, key=lambda i: blocks[i].rank):
        if length(_text(blocks, cut - {i})) <= limit:
            cut.remove(i)
    return _text(blocks, cut)


def length(text: str) -> int:
    """Bytes of UTF-8: at least as many as characters or UTF-16 units, so no count of GitHub's is larger."""
    return len(text.encode())


def _text(blocks: Sequence[Block], cut: AbstractSet[int]) -> str:
    names = ", ".join(blocks[i].name for i in sorted(cut))
    note = f"**Cut, for GitHub's limit on a comment:** {names}. The bundle's report has it all.\n\n"
    first = min(cut, default=None)
    return "".join(note if i == first else "" if i in cut else b.text for i, b in enumerate(blocks))
