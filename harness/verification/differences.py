"""Where two trees, or two files, part: by field, or by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.evidence.mismatch import Mismatch
from harness.evidence.names import printable
from harness.evidence.unpack import CHUNK_BYTES
from harness.verification.digests import digest

SHOWN = 120
"""Characters of a value, or of a line around the first difference."""
TEXTS = (".html", ".md", ".json", ".svg", ".csv", ".txt", ".css", ".js")

Difference = tuple[str, str | None, str | None]
"""Field with dots, what is said, what was found; None for a field that one of the two lacks."""


def differences(said: Any, found: Any, field: str = "") -> Iterator[Difference]:
    """Leaves in which two JSON values differ, in the order of the first."""
    prefix = f"{field}." if field else ""
    if isinstance(said, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*said, *found)):
            if key not in said and found[key] is None:
                continue  # a field that an older harness does not know
            if key not in said or key not in found:
                yield f"{prefix}{key}", _shown(said, key), _shown(found, key)
            else:
                yield from differences(said[key], found[key], f"{prefix}{key}")
    elif isinstance(said, list) and isinstance(found, list):
        for place, (one, other) in enumerate(zip(said, found, strict=False)):
            yield from differences(one, other, f"{prefix}{place}")
        if len(said) != len(found):
            yield f"{prefix}length", str(len(said)), str(len(found))
    elif type(said) is not type(found) or said != found:
        yield field, shown(said), shown(found)


def shown(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    text = printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _shown(tree: dict[str, Any], key: str) -> str | None:
    return shown(tree[key]) if key in tree else None


def file_difference(name: str, said: Path, found: Path) -> Mismatch | None:
    """Where a file parts from the one that was derived again, or None. Neither is ever read as a whole."""
    line = before = 0
    with said.open("rb") as ours, found.open("rb") as theirs:
        while True:
            one, other = ours.read(CHUNK_BYTES), theirs.read(CHUNK_BYTES)
            if one != other:
                break
            if not one:
                return None
            line += one.count(b"\n")
            before += len(one)
    place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    if not name.endswith(TEXTS):
        return Mismatch(name, "SHA-256", digest(said), digest(found))
    line += one.count(b"\n", 0, place) + 1
    return Mismatch(name, f"line {line}", _around(one, place), _around(other, place))


def _around(data: bytes, place: int) -> str:
    """The line at a place, or as much of it as is shown."""
    begin = max(data.rfind(b"\n", 0, place) + 1, place - SHOWN // 2)
    end = data.find(b"\n", place)
    end = min(len(data) if end < 0 else end, place + SHOWN // 2)
    return repr(data[begin:end].decode("utf-8", "replace"))
