"""What the nights together say: has a metric's level against the anchor changed, and since when?

Only a nightly session has these rows. The nights before stand in plan.json, so the same bundle gives the same
answer on any day; tonight's figure is the session's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.judge.case import Case, Cell
from harness.judge.cell_identity import planned_sha256
from harness.judge.judgement import percent
from harness.judge.rows.calibration import NIGHTS
from harness.records import Row
from harness.records.history import Series
from harness.words import Word

if TYPE_CHECKING:
    from harness.judge.stats.changes import Change


def rows(case: Case) -> Iterator[Row]:
    """One row per primary metric that was measured tonight."""
    night = case.plan.night
    if night is None:
        return
    for series in night.series:
        for cell in case.cells:
            if (cell.mode, cell.warmup, cell.cache) == (series.mode, series.warmup, series.cache):
                yield _row(case, cell, series, len(night.series))


def _row(case: Case, cell: Cell, series: Series, together: int) -> Row:
    from harness.judge.stats.changes import FEWEST_NIGHTS, MOST_NIGHTS, Night, change  # noqa: PLC0415  # statistics

    night = case.plan.night
    assert night is not None
    judged = case.paired.get((cell.mode, cell.warmup, cell.cache, series.name, series.context_tokens))
    if judged is None or not judged.ratios:
        return _made(cell, series, Word.NOT_TESTED, "no pair tonight")
    if series.points and planned_sha256(case, cell, series.context_tokens) != series.cell_sha256:
        return _made(cell, series, Word.NOT_TESTED, "the nights before are of another cell: only tonight's A/B speaks")
    own_sd = judged.tested.own_sd if judged.tested else None
    tonight = Night(sum(judged.ratios) / len(judged.ratios), len(judged.ratios), own_sd)
    known = [*(Night(p.mean, p.pairs, p.own_sd) for p in series.points), tonight][-MOST_NIGHTS:]
    if len(known) < FEWEST_NIGHTS:
        why = f"{len(known)} nights against this anchor, change points need {FEWEST_NIGHTS}: only the A/B speaks"
        return _made(cell, series, Word.NOT_TESTED, why)
    smallest = math.log1p(case.plan.profile.nightly.smallest_change_pct / 100)
    dates = [*(p.night for p in series.points), night.date][-MOST_NIGHTS:]
    found = change(known, series=together, smallest=smallest)
    word, reason = _said(found, dates, smallest)
    return _made(cell, series, word, reason, found)


def _said(found: Change, dates: list[str], smallest: float) -> tuple[Word, str]:
    from harness.judge.stats.changes import STANDS_APART  # noqa: PLC0415

    seen = f"{len(dates)} nights, noise {100 * found.noise:.2g} % a night, penalty {found.penalty:.3g}"
    if found.since is not None and found.lasting:
        lasted = len(dates) - found.since
        how = f"{_percent(found.shift)} since {dates[found.since]}, {lasted} nights ({seen})"
        return (Word.FAIL, f"regressed: {how}") if found.shift < 0 else (Word.IMPROVED, how)
    if found.since is None and found.step < -smallest:
        start = dates[found.starts[-1]]
        return Word.WARN, f"{_percent(found.step)} since {start}: an improvement over the anchor was lost ({seen})"
    if abs(found.apart) > STANDS_APART:
        tonight = f"tonight stands apart by {abs(found.apart):.1f} times the noise"
        return Word.NOTE, f"{tonight}; a change counts from its second night on ({seen})"
    return Word.PASS, f"no lasting change ({seen})"


def _made(cell: Cell, series: Series, word: Word, reason: str, found: Change | None = None) -> Row:
    return cell.row(
        f"{NIGHTS}{series.name}",
        word,
        reason,
        context_tokens=series.context_tokens,
        control=None if found is None else _percent(found.levels[0]),
        candidate=None if found is None else _percent(found.levels[-1]),
        unit="" if found is None else "level first, now",
        sources=("plan.json",),
    )


def _percent(log_ratio: float) -> str:
    return percent(math.expm1(log_ratio))
