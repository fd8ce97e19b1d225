"""What one place gave away, looked for everywhere: as quickly for a thousand values as for one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.evidence.redaction.finding import Found, as_text
from harness.evidence.redaction.kinds import Kind
from harness.evidence.redaction.rules import BEFORE, VERSION_BEFORE

FREE = frozenset({Kind.KEY, Kind.TOKEN, Kind.SECRET, Kind.UUID, Kind.MAC})
"""Found inside a longer word too: nothing else looks like them."""
MOST_FREE = 100
"""With more values than this, all are found as words only: a search for each at every byte would take hours."""

_RUN = re.compile(rb"[A-Za-z0-9]+")


class Learnt:
    """Values and their kinds."""

    def __init__(self, values: Mapping[bytes, Kind]) -> None:
        self._kinds = values
        free = [v for v, kind in values.items() if kind in FREE or not _RUN.search(v)]
        if len(free) > MOST_FREE:
            free = []
        self._free = re.compile(b"|".join(map(re.escape, _longest_first(free)))) if free else None
        self._by_head: dict[bytes, dict[tuple[int, int], set[bytes]]] = {}
        """By the first run of letters and digits: by where that begins in it and its length, the values."""
        for value in _longest_first(set(values) - set(free)):
            if head := _RUN.search(value):
                alike = self._by_head.setdefault(head[0], {})
                alike.setdefault((head.start(), len(value)), set()).add(value)

    def places(self, data: bytes) -> list[Found]:
        """Every place of every value."""
        found = [*self._freely(data), *self._as_words(data)] if self._kinds else []
        return [one for one in found if one.kind is not Kind.ADDRESS or not _is_version(data, one.begin)]

    def _freely(self, data: bytes) -> Iterator[Found]:
        for match in self._free.finditer(data) if self._free else ():
            yield Found(*match.span(), self._kinds[match[0]], as_text(match[0]))

    def _as_words(self, data: bytes) -> Iterator[Found]:
        for run in _RUN.finditer(data) if self._by_head else ():
            for (offset, length), alike in self._by_head.get(run[0], {}).items():
                begin = run.start() - offset
                value = data[begin : begin + length] if begin >= 0 else b""
                if value in alike and self._stands_alone(data, begin, value):
                    yield Found(begin, begin + length, self._kinds[value], as_text(value))
                    break

    def _stands_alone(self, data: bytes, begin: int, value: bytes) -> bool:
        end = begin + len(value)
        before, behind = data[max(0, begin - 1) : begin], data[end : end + 2]
        if self._kinds[value] is Kind.ADDRESS:
            return not re.match(rb"[\w.:]", before) and not re.match(rb"\w|\.\d", behind)
        return not before.isalnum() and not behind[:1].isalnum()


def _longest_first(values: set[bytes] | list[bytes]) -> list[bytes]:
    return sorted(values, key=lambda v: (-len(v), v))


def _is_version(data: bytes, begin: int) -> bool:
    return re.search(VERSION_BEFORE, data[max(0, begin - BEFORE) : begin].decode("latin-1")) is not None
