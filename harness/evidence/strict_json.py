"""JSON as the harness writes it, and nothing that two readers could take for two things."""

from __future__ import annotations

import json
from typing import Any


def parse(data: bytes) -> Any:
    """A JSON document in UTF-8: no key twice in one object, no NaN, no infinity.

    Raises:
        ValueError: it is no such document; the message is one line.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_each_once, parse_constant=_refused)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice[:80]!r} stands there twice")
    return found


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no JSON value")
