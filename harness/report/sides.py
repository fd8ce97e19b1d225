"""What a row's two sides and their change read like in one line of the comment's table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.records import Row
from harness.report.figures import Reading, difference, reading, relative
from harness.report.text import tokens_text
from harness.words import Word

_SAME = re.compile(r"(\d+ of \d+) outputs are the same bytes(?:, sha256 (\w+) \(first\), ([\d,]+) tokens)?")
_COUNTS = re.compile(r"(\d+ compiled(?: \(.*\))?), (\d+ loaded), (\d+ new files)")


def titled(title: str, row: Row) -> str:
    """`PP 2K, tok/s`."""
    if not row.context_tokens:
        return title
    name, comma, unit = title.partition(",")
    return f"{name} {tokens_text(row.context_tokens)}{comma}{unit}"


def texts(row: Row, sides: Sequence[Reading | None]) -> tuple[str, str]:
    """Both sides as one figure each; what is no figure as the judge wrote it."""
    control, candidate = (
        str(side) if side else text or "-" for side, text in zip(sides, (row.control, row.candidate), strict=True)
    )
    return control, candidate


def side_of(row: Row | None, number: int) -> str | None:
    """Text of the control (0) or the candidate (1)."""
    return None if row is None else (row.control, row.candidate)[number]


def change(row: Row, control: Reading | None, candidate: Reading | None, *, lower_is_better: bool = False) -> str:
    """Candidate against control, with the interval where pairs were tested.

    The test's sign says what is better, the comment's what is larger: it is turned back where less is better.
    """
    if row.tested is None:
        return relative(control, candidate)
    t = row.tested
    ends = [t.change_pct, t.low_pct, t.high_pct]
    if lower_is_better:
        ends = [(1 / (1 + x / 100) - 1) * 100 for x in (t.change_pct, t.high_pct, t.low_pct)]
    return f"{ends[0]:+.1f} % ({ends[1]:+.1f} to {ends[2]:+.1f})"


def kv(row: Row) -> tuple[str, str, str]:
    """KV tokens and their change."""
    control, candidate = (reading(text, "least") for text in (row.control, row.candidate))
    shown = texts(row, (control, candidate))
    if control is None or candidate is None:
        return *shown, "?"
    changed = f"{difference(control, candidate)} ({relative(control, candidate, digits=3)})"
    return *shown, "equal" if shown[0] == shown[1] else changed


def kernels(row: Row) -> tuple[str, str, str]:
    """Late kernels or compilations, and how many are new."""
    control, candidate = (_compiles(side or "-") for side in (row.control, row.candidate))
    if control == candidate:
        return control, candidate, "equal"
    ours, theirs = (set(side.split(", ")) - {"none"} for side in (control, candidate))
    if row.name.startswith("late JIT") and "not armed" not in (control, candidate):
        parts = [f"{n} {what}" for n, what in ((len(theirs - ours), "new"), (len(ours - theirs), "gone")) if n]
        return control, candidate, ", ".join(parts)
    return control, candidate, "differs"


def _compiles(side: str) -> str:
    """`1 compiled, 8 new files`: what there is none of goes without saying."""
    found = _COUNTS.fullmatch(side)
    if found is None:
        return side
    return ", ".join(part for part in found.groups() if not part.startswith("0 ")) or "none"


def identity(row: Row) -> tuple[str, str, str]:
    """Count and hash stand in the reason where all is identical; else the reason says what is not."""
    found = _SAME.search(row.reason) if row.word is Word.PASS else None
    own = (row.control or "-").removeprefix("with itself: ")
    if found is None:
        return f"with itself {own}", row.candidate or "-", row.reason
    tokens = f", {found[3]} tokens" if found[3] else ""
    digest = f", sha256 {found[2]}" if found[2] else ""
    return f"with itself {own}", f"{found[1]} identical{tokens}{digest}", "equal"


def outputs(row: Row) -> str:
    """How many outputs are equal, or what is not."""
    found = _SAME.search(row.reason) if row.word is Word.PASS else None
    return f"{found[1]} equal" if found else row.reason


def what(row: Row) -> str:
    """Which prompts: a context, or the identity prompts."""
    return tokens_text(row.context_tokens) or row.name.rpartition(", ")[2].replace(" prompts", "")


def share(counts: tuple[int, int]) -> str:
    """`451/571 (79.0 %)`."""
    return f"{counts[0]:,}/{counts[1]:,} ({counts[0] / counts[1]:.1%})".replace("%)", " %)")


def mal(counts: tuple[int, int]) -> str:
    """Mean acceptance length: 1 + accepted / drafted."""
    return f"{1 + counts[0] / counts[1]:.3f}"
