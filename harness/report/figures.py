"""Figures of a row read back from its text, to be put together over launches and set against each other.

The judge writes one figure per launch, parted by ` / `; of several GPUs the rank that is worst off, and the range
over all of them: `245 (245-255) / 247 (247-255)`. The comment is made of the verdict alone, so it reads that.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_ONE = re.compile(r"(-?[\d,]+(?:\.\d+)?)(?: \((-?[\d,]+(?:\.\d+)?)-(-?[\d,]+(?:\.\d+)?)\))?")
_ACCEPTED = re.compile(r"([\d,]+)/([\d,]+) = ")

Pick = Literal["least", "most", "middle"]


@dataclass(frozen=True)
class Reading:
    """Figures of all launches of an arm as one, with the range over launches and ranks; never a mean over ranks."""

    value: float
    low: float
    high: float
    decimals: int

    def __str__(self) -> str:
        """`245` or `245 (245-255)`."""
        value = f"{self.value:,.{self.decimals}f}"
        if self.low == self.high:
            return value
        return f"{value} ({self.low:,.{self.decimals}f}-{self.high:,.{self.decimals}f})"


def reading(text: str | None, pick: Pick) -> Reading | None:
    """Figures of a row's side as one; None where it has none, or a launch has none."""
    if text is None:
        return None
    found = [_ONE.fullmatch(part) for part in text.split(" / ")]
    if not all(found):
        return None
    matches = [m for m in found if m is not None]
    values = [_number(m[1]) for m in matches]
    every = [*values, *(_number(m[n]) for m in matches for n in (2, 3) if m[n] is not None)]
    value = {"least": min(values), "most": max(values), "middle": statistics.median(values)}[pick]
    return Reading(value, min(every), max(every), max(_decimals(m[1]) for m in matches))


def accepted(text: str | None) -> tuple[int, int] | None:
    """(accepted, drafted) of a row of acceptance."""
    found = _ACCEPTED.match(text or "")
    return (int(_number(found[1])), int(_number(found[2]))) if found else None


def difference(control: Reading | None, candidate: Reading | None) -> str:
    """`+2`, `-192`; `?` where a side has no figure."""
    if control is None or candidate is None:
        return "?"
    return f"{candidate.value - control.value:+,.{max(control.decimals, candidate.decimals)}f}"


def relative(control: Reading | None, candidate: Reading | None, digits: int = 1) -> str:
    """`+42.2 %`; `?` where it cannot be told."""
    if control is None or candidate is None or not control.value:
        return "?"
    return f"{(candidate.value / control.value - 1) * 100:+.{digits}f} %"


def chain(readings: Sequence[Reading | None]) -> str:
    """Moments one after the other: `2,400 → 245 → 251`."""
    return " → ".join("?" if r is None else str(r) for r in readings)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])
