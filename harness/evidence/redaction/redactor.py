"""Redaction of a whole bundle: first everything is read and learnt, then what was found is replaced everywhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import IO

from harness.errors import ConfigError
from harness.evidence.redaction.finding import Found, as_text, found_in_bytes, settled
from harness.evidence.redaction.kinds import Kind
from harness.evidence.redaction.learnt import Learnt
from harness.evidence.redaction.placeholders import placeholder

PIECE_BYTES = 4 << 20
LONGEST_LINE_BYTES = 64 << 20
SHORTEST_WORD = 3
LEARNT_FROM = {Kind.USER: 4, Kind.HOST: 4, Kind.SECRET: 8, Kind.SERIAL: 8}
"""Characters from which a thing is looked for beyond the place that gave it away: shorter ones mean too much else."""

_KEY_LINE = re.compile(rb"[A-Za-z0-9+/=]{40,}")


class Redactor:
    """Learns from every file of a bundle, then replaces in every file."""

    def __init__(self, words: Sequence[str] = (), known: Sequence[tuple[Kind, str]] = ()) -> None:
        """Start with nothing found.

        Args:
            words: What the user wants removed too, whatever the case of its letters.
            known: What is private by the account and the machine that this runs on.

        Raises:
            ConfigError: a word is too short to be looked for.
        """
        for word in words:
            if len(word) < SHORTEST_WORD:
                raise ConfigError(
                    f"--redact {word}: a word of at least {SHORTEST_WORD} characters, or half the bundle goes"
                )
        self._words = [re.compile(re.escape(w.encode()), re.IGNORECASE) for w in words]
        self._values: dict[Kind, set[str]] = {}
        self._learnt: dict[bytes, Kind] = {v.encode(): kind for kind, v in known}
        for kind, value in known:
            self._values.setdefault(kind, set()).add(value)
        self._numbers: dict[tuple[Kind, str], int] = {}
        self._everywhere = Learnt({})

    def learn(self, data: bytes, *, kinds: Collection[Kind] = frozenset(Kind)) -> None:
        """Take note of everything private in a piece, or of these kinds alone."""
        for one in self._by_rules(data):
            if one.kind not in kinds:
                continue
            self._values.setdefault(one.kind, set()).add(one.value)
            if one.kind is Kind.KEY:  # a part of it may be quoted elsewhere, without what it is known by
                self._learnt |= dict.fromkeys(_KEY_LINE.findall(one.value.encode()), Kind.KEY)
            elif one.learnt and len(one.value) >= LEARNT_FROM.get(one.kind, 1):
                self._learnt.setdefault(one.value.encode("utf-8", "surrogatepass"), one.kind)

    def number(self) -> None:
        """Give everything learnt its number: from here on nothing is learnt."""
        for kind, values in self._values.items():
            folded = sorted({_folded(kind, v) for v in values})
            self._numbers |= {(kind, value): n for n, value in enumerate(folded, 1)}
        self._everywhere = Learnt(self._learnt)

    def places(self, data: bytes) -> list[Found]:
        """Everything in a piece that goes."""
        return settled([*self._by_rules(data), *self._everywhere.places(data)])

    def replaced(self, data: bytes, places: Sequence[Found]) -> bytes:
        """The piece without what stands at those places, and as long as it was."""
        parts, now = [], 0
        for one in places:
            stands_for = self._placeholder(one)
            parts += [data[now : one.begin], _in_bytes(stands_for, one.end - one.begin)]
            now = one.end
        return b"".join([*parts, data[now:]])

    def redacted(self, data: bytes) -> bytes:
        """A piece without all that goes."""
        return self.replaced(data, self.places(data))

    def left(self, data: bytes) -> list[Found]:
        """What was learnt and stands in a piece that should be free of it."""
        words = [Found(*m.span(), Kind.WORD, as_text(m[0])) for p in self._words for m in p.finditer(data)]
        return [*words, *self._everywhere.places(data)]

    def distinct(self) -> dict[Kind, int]:
        """How many different things of each kind were found."""
        return {
            kind: len({_folded(kind, v) for v in values}) for kind, values in sorted(self._values.items()) if values
        }

    def _by_rules(self, data: bytes) -> list[Found]:
        words = [Found(*m.span(), Kind.WORD, as_text(m[0])) for p in self._words for m in p.finditer(data)]
        return settled([*words, *found_in_bytes(data)])

    def _placeholder(self, one: Found) -> str:
        return placeholder(one.kind, one.value, self._numbers.get((one.kind, _folded(one.kind, one.value)), 0))


def pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """A file in pieces of whole lines: what the rules look for does not go over the end of one, but for a key.

    A private key that has begun stays in one piece.
    """
    waiting = b""
    while block := stream.read(PIECE_BYTES):
        waiting += block
        cut = waiting.rfind(b"\n") + 1
        begun = waiting.rfind(b"-----BEGIN ", 0, cut)
        if begun >= 0 and cut - begun < LONGEST_LINE_BYTES and b"-----END " not in waiting[begun:cut]:
            cut = begun
        if cut == 0 and len(waiting) >= LONGEST_LINE_BYTES:
            cut = len(waiting)
        if cut:
            yield waiting[:cut]
            waiting = waiting[cut:]
    if waiting:
        yield waiting


def _folded(kind: Kind, value: str) -> str:
    return value.lower() if kind in {Kind.WORD, Kind.MAC} else value


def _in_bytes(text: str, length: int) -> bytes:
    data = text.encode("utf-8")
    return data if len(data) == length else text.encode("latin-1", "replace")
