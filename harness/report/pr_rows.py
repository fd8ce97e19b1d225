"""The rows that reviewers of this field read first (DESIGN 8), compact: one line per cell, launches as a median."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.records import Row, Verdict
from harness.report.text import signed, tokens_text
from harness.words import Word

LABELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("late JIT", ("late ", "specialisation mismatch", "claim ")),
    ("KV tokens", ("KV tokens",)),
    ("residency", ("residency",)),
    ("lowest free: idle → first prompts → end", ("free at idle",)),
    ("lowest free", ("lowest free",)),
    ("accepted / drafted", ("accepted / drafted, decode",)),
    ("identity", ("identity", "known answers")),
    ("start-up", ("start-up",)),
    ("PP", ("prefill",)),
    ("TG", ("decode",)),
)
"""Name of a group -> how its rows' names begin."""

COURSE = ("free at idle", "lowest free in first prompt", "free at the end")
"""Rows that are shown as one line: `2,048 → 1,348 → 2,048`."""

ONE_RANK = re.compile(r"(\S+) \(\1-\1\)")
NOT_HERE = ("lowest free in first prompt", "late JIT (tracer)")
"""Rows that begin like another one: shown with it, or only where they say something."""


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    subject: str
    """With its unit: `residency, MiB/rank`."""
    state: str
    """The cells that it speaks of."""
    control: str
    candidate: str
    delta: str
    word: Word


def pr_lines(verdict: Verdict) -> list[Line]:
    """Lines in the reviewers' order, cells that say the same as one line.

    Rows that were not tested and have no figure are left to the full list.
    """
    found: dict[tuple[object, ...], list[tuple[Line, Row]]] = {}
    for label, beginnings in LABELS:
        for line, row in _group(label, beginnings, verdict.rows):
            key = (line.subject, line.control, line.candidate, line.delta, line.word)
            found.setdefault(key, []).append((line, row))
    return [replace(same[0][0], state=_cells([row for _, row in same])) for same in found.values()]


def _group(label: str, beginnings: tuple[str, ...], rows: Sequence[Row]) -> Iterator[tuple[Line, Row]]:
    for row in rows:
        silent = row.word is Word.NOT_TESTED and row.control is None and row.candidate is None
        if silent or not row.name.startswith(beginnings) or row.name.startswith(NOT_HERE):
            continue
        is_course = row.name == COURSE[0]
        control, candidate = (
            _course(row, rows, side) if is_course else _compact(getattr(row, side)) for side in ("control", "candidate")
        )
        line = Line(
            subject=_subject(label if is_course else row.name, row.unit.partition(",")[0]),
            state="",
            control=control,
            candidate=candidate,
            delta="-" if is_course else _change(row),
            word=row.word,
        )
        yield line, row


def _subject(name: str, unit: str) -> str:
    return name if not unit or name.endswith(unit) else f"{name}, {unit}"


def _cells(rows: Sequence[Row]) -> str:
    """`mtp0, mtp1 engine cold, warm 2K` where that names just these cells, else one by one."""
    cells = [(r.mode, r.warmup, r.cache, tokens_text(r.context_tokens)) for r in rows]
    parts = [list(dict.fromkeys(str(p) for p in column if p)) for column in zip(*cells, strict=True)]
    if math.prod(len(p) or 1 for p in parts) == len(set(cells)):
        return " ".join(", ".join(p) for p in parts if p)
    return "; ".join(" ".join(str(p) for p in cell if p) for cell in dict.fromkeys(cells))


def _course(idle: Row, rows: Sequence[Row], side: str) -> str:
    """`2,048 → 1,348 → 2,048`: idle, the lowest in any first prompt, the end."""
    cell = (idle.mode, idle.warmup, idle.cache)
    here = [r for r in rows if (r.mode, r.warmup, r.cache) == cell]
    steps = [_lowest([getattr(r, side) for r in here if r.name.startswith(name)]) for name in COURSE]
    return " → ".join(steps)


def _lowest(texts: Sequence[str | None]) -> str:
    values = [v for text in texts for v in _values(text)]
    return f"{min(values):,.0f}" if values else "-"


def _compact(text: str | None) -> str:
    """`1.0 / 1.2 / 1.1` as `1.1 (1.0 to 1.2)`; what is the same in every launch once."""
    if text is None:
        return "-"
    parts = [ONE_RANK.sub(r"\1", part) for part in text.split(" / ")]
    if len(parts) == 1 or len(set(parts)) == 1:
        return parts[0]
    known = [p for p in parts if p != "-"]
    if any(_number(p) is None for p in known) or not known:
        return text
    ranked = sorted(known, key=lambda p: _number(p) or 0.0)
    decimals = len(ranked[0].partition(".")[2])
    middle = statistics.median(_number(p) or 0.0 for p in ranked)
    void = f", {len(parts) - len(known)} of {len(parts)} void" if len(known) < len(parts) else ""
    return f"{middle:,.{decimals}f} ({ranked[0]} to {ranked[-1]}{void})"


def _change(row: Row) -> str:
    """The tested change, + is better; or the bare difference of the medians."""
    if (t := row.tested) is not None:
        return f"{signed(t.change_pct)} ({signed(t.low_pct)} to {signed(t.high_pct)})"
    control, candidate = (_values(x) for x in (row.control, row.candidate))
    if not (control and candidate) or statistics.median(control) == 0:
        return "-"
    ratio = statistics.median(candidate) / statistics.median(control)
    return "0" if ratio == 1 else f"{100 * (ratio - 1):+.2g} %"


def _values(text: str | None) -> list[float]:
    """Figures of a row's launches; of a figure with its ranks' range, the figure."""
    found = [_number(part.partition(" (")[0]) for part in (text or "").split(" / ")]
    return [v for v in found if v is not None]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
