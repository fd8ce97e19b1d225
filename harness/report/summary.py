"""The last lines of a run: verdict, reasons of what is not a pass, and where the report lies."""

from __future__ import annotations

from pathlib import Path

from harness.records import Row, Verdict
from harness.report.text import plain
from harness.words import Word

QUIET = (Word.PASS, Word.IMPROVED, Word.NOT_TESTED)
REASON_WIDTH = 240


def cell_text(row: Row) -> str:
    """Where a row belongs: `mtp1 engine warm 2048`."""
    parts = (row.mode, row.warmup, row.cache, row.context_tokens)
    return " ".join(str(p) for p in parts if p is not None)


def summary_lines(verdict: Verdict, report: Path) -> list[str]:
    """Lines for a terminal or a log; each reason that is not a pass on a line of its own."""
    lines = []
    for word in Word:
        rows = [r for r in verdict.rows if r.word is word]
        if word in QUIET:
            continue
        for row in rows:
            place = cell_text(row)
            reason = " ".join(plain(row.reason).split())[:REASON_WIDTH]  # it may quote a log, terminal codes and all
            lines.append(f"{word}: {plain(row.name)}{f' [{place}]' if place else ''}: {reason}")
    counts = {w: sum(r.word is w for r in verdict.rows) for w in Word}
    counted = ", ".join(f"{n} {w}" for w, n in counts.items() if n)
    lines.append(f"rows: {counted}")
    lines.append(f"verdict: {verdict.verdict} (exit code {verdict.exit_code})")
    lines.append(f"report: {report}")
    return lines
