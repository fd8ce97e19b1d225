"""Where the rules find something: in a file, and in a text that a report shows."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.evidence.redaction.kinds import Kind
from harness.evidence.redaction.rules import BEFORE, RULES

_ESCAPED_SPACE = re.compile(rb"(?<!\\)\\+[nrtbf]")
_ESCAPES = (b"n", b"r", b"t", b"b", b"f", b"u", b'"', b"/")


@dataclass(frozen=True, order=True)
class Found:
    """One place, in bytes of a file or characters of a text."""

    begin: int
    end: int
    kind: Kind
    value: str
    """What stands there; of bytes that are not UTF-8 each is a character."""
    learnt: bool = True
    """It is looked for everywhere else."""


def found_in_text(text: str) -> list[Found]:
    """Everything that the rules find in a text, in order, without overlap."""
    return settled(
        Found(*m.span("it"), rule.kind, m["it"], rule.learnt)
        for rule in RULES
        if not rule.needles or any(n in text for n in rule.needles)
        for m in rule.in_text.finditer(text)
        if not rule.stays(m["it"], text[max(0, m.start("it") - BEFORE) : m.start("it")])
    )


def found_in_bytes(data: bytes) -> list[Found]:
    """Everything that the rules find in a file, in order, without overlap."""
    return settled(_in_bytes(data))


def settled(found: Iterable[Found]) -> list[Found]:
    """Of places that overlap, the one that comes first here; in the order of the text."""
    kept: list[Found] = []
    for one in found:
        at = bisect_left(kept, one)
        before_ends = at == 0 or kept[at - 1].end <= one.begin
        after_begins = at == len(kept) or one.end <= kept[at].begin
        if one.begin < one.end and before_ends and after_begins:
            kept.insert(at, one)
    return kept


def hidden(text: str) -> str:
    """A text as a report may show it: each thing found stands as its kind, `[token]`.

    GPU UUIDs stay: whoever reads a report must be able to tell its GPUs apart.
    """
    for one in reversed(found_in_text(text)):
        if one.kind is not Kind.UUID:
            text = f"{text[: one.begin]}[{one.kind}]{text[one.end :]}"
    return text


def as_text(value: bytes) -> str:
    """Bytes as characters; what is not UTF-8 byte by byte."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _in_bytes(data: bytes) -> Iterator[Found]:
    yield from _in_view(data, data)
    if b"\\" in data:
        # The `n` of a `\n` in JSON is no letter of the word behind it.
        yield from _in_view(_ESCAPED_SPACE.sub(lambda m: b" " * len(m[0]), data), data)


def _in_view(view: bytes, data: bytes) -> Iterator[Found]:
    for rule in RULES:
        if rule.needles and not any(n in view for n in rule.needles_in_bytes):
            continue
        for match in rule.in_bytes.finditer(view):
            begin, end = match.span("it")
            if _is_escaped(data, begin):
                begin += 1
            value = as_text(data[begin:end])
            if value and not rule.stays(value, view[max(0, begin - BEFORE) : begin].decode("latin-1")):
                yield Found(begin, end, rule.kind, value, rule.learnt)


def _is_escaped(data: bytes, at: int) -> bool:
    """True behind a backslash that makes a letter a part of itself, as JSON does."""
    backslashes = at - len(data[max(0, at - 16) : at].rstrip(b"\\")) - max(0, at - 16)
    return backslashes % 2 == 1 and data[at : at + 1] in _ESCAPES
