"""What is put in the place of something removed: as long as it was, and the same for the same thing.

The same number of bytes and of characters, so that offsets into a log stay right and a figure that was cut from
a text is cut at the same place. Numbered in the order of what was removed, so that what sorts goes on sorting.
"""

from __future__ import annotations

from harness.evidence.redaction.kinds import Kind

_WIDE = {2: "\u00b7", 3: "\u2026", 4: "\U00010102"}
"""A character of that many bytes in UTF-8, for each of those that were there."""


def placeholder(kind: Kind, value: str, number: int) -> str:
    """What stands for the value, e.g. `user1` for `alice`, `GPU-00000001-0000-...` for a UUID.

    Args:
        kind: Of the value.
        value: What is removed.
        number: Of this value among those of its kind, from 1.
    """
    if kind is Kind.KEY:
        return _masked(value)
    if kind is Kind.UUID and value[:4] in ("GPU-", "MIG-"):
        return f"{value[:4]}{number:08d}{'-0000' * 3}-{'0' * 12}"[: len(value)]
    if value.isascii() and value.isdigit():
        return f"{number:{len(value)}d}".replace(" ", "9")[-len(value) :]  # may be a number of a JSON file
    return _as_wide(value, _fitted(kind.label, number, len(value)))


def _fitted(label: str, number: int, length: int) -> str:
    """The label and as many zeros as fit; of a short one its beginning, of a very short one the number's end."""
    digits = str(number)
    room = length - len(digits)
    return f"{label[:room]}{digits:0>{length - len(label[:room])}}" if room > 0 else digits[-length:]


def _masked(value: str) -> str:
    r"""Letters and digits as x; lines stay lines, also those written `\n` in JSON."""
    shown, escaped = [], False
    for char in value:
        shown.append("x" if char.isalnum() and char.isascii() and not escaped else char)
        escaped = char == "\\" and not escaped
    return "".join(shown)


def _as_wide(value: str, shown: str) -> str:
    """The placeholder with as many bytes as the value."""
    return "".join(
        _WIDE.get(len(was.encode("utf-8", "surrogatepass")), now) for was, now in zip(value, shown, strict=True)
    )
