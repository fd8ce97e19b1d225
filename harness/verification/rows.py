"""Rows of two verdicts side by side: a later judge has more of them, and one more is one difference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from harness.verification.differences import Difference, differences, shown

IDENTITY = ("name", "mode", "warmup", "cache", "context_tokens", "unit")
"""Fields that say which row it is, and not what it says."""
MOST_ALIGNED = 2_000
"""Rows of a stranger's verdict that are aligned; more are held against ours by their place, in linear time."""


def row_differences(said: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[Difference, Any]]:
    """Where the rows part, each difference with the row that was found, or None where there is none.

    A field counts rows as the verdict said them, and one that it lacks as they were found.
    """
    for one, other in _pairs(said, found):
        row = None if other is None else found[other]
        if one is None:
            yield (f"rows.{other}", None, shown(row)), row
        elif other is None:
            yield (f"rows.{one}", shown(said[one]), None), None
        else:
            for difference in differences(said[one], row, f"rows.{one}"):
                yield difference, row


def _pairs(said: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[int | None, int | None]]:
    """Places of the same row in both, in order; None where one of the two lacks it."""
    if len(said) > MOST_ALIGNED:
        yield from zip_longest(range(len(said)), range(len(found)))
        return
    matched = SequenceMatcher(None, [_key(row) for row in said], [_key(row) for row in found], autojunk=False)
    for _, i, i_end, j, j_end in matched.get_opcodes():
        # As many for as many: what was changed is who the row is.
        if i_end - i == j_end - j:
            yield from zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            yield from ((one, None) for one in range(i, i_end))
            yield from ((None, other) for other in range(j, j_end))


def _key(row: Any) -> str:
    return json.dumps([row.get(field) for field in IDENTITY] if isinstance(row, dict) else row)
