"""The primary metrics as the plan fixed them: the candidate against the control, pair by pair, with the margin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from harness.judge.case import Case, Cell
from harness.judge.family import Metric, is_primary
from harness.judge.judgement import Judgement
from harness.judge.rows import load, speed, startup
from harness.records import Row, Verdict
from harness.records.statistics import Tested
from harness.report.text import tokens_text
from harness.words import Cache, Word


@dataclass(frozen=True)
class Effect:
    """One metric in one cell. Changes are in percent, signed so that + is better."""

    mode: str
    warmup: str
    cache: str
    name: str
    """`prefill 32K`."""
    margin_pct: float
    pairs_pct: tuple[float, ...]
    """Change of each pair."""
    word: Word
    reason: str
    tested: Tested | None
    """None where there are too few pairs for an interval."""
    sources: tuple[str, ...]

    @property
    def title(self) -> str:
        """`mtp1 engine warm: prefill 32K`."""
        return f"{self.mode} {self.warmup} {self.cache}: {self.name}"

    @property
    def edge_pct(self) -> float:
        """The change below which the candidate is worse by more than the margin: the margin is one of the logarithm."""
        return 100 * (1 / (1 + self.margin_pct / 100) - 1)


def effects(case: Case, verdict: Verdict) -> list[Effect]:
    """Every primary metric that has a pair, by mode, in the order of the cells: of warm ones, as plans name them."""
    rows, cells = {_key(r): r for r in verdict.rows}, [c for c in case.cells if c.cache is Cache.WARM]
    found = [e for cell in cells for metric in _metrics(case, cell) if (e := _effect(case, cell, metric, rows))]
    return sorted(found, key=lambda e: case.plan.profile.plan.modes.index(e.mode))


def _metrics(case: Case, cell: Cell) -> Iterator[Metric]:
    every = chain(startup.metrics(case, cell), speed.metrics(case, cell), load.metrics(case, cell))
    return (metric for metric in every if is_primary(case.plan, cell, metric))


def _effect(case: Case, cell: Cell, metric: Metric, rows: dict[tuple[object, ...], Row]) -> Effect | None:
    judged: Judgement | None = case.paired.get(metric.key(cell))
    both = zip(*cell.timed(metric.figure), strict=True)
    pairs = tuple(_change(a, b, more_is_better=metric.more_is_better) for a, b in both if a and b and a > 0 and b > 0)
    if judged is None or not pairs:
        return None
    row = rows.get((metric.name, cell.mode, cell.warmup, cell.cache_label, metric.context_tokens))
    return Effect(
        mode=cell.mode,
        warmup=str(cell.warmup),
        cache=cell.cache_label,
        name=f"{metric.name} {tokens_text(metric.context_tokens)}".strip(),
        margin_pct=metric.margin_pct,
        pairs_pct=pairs,
        # The row may know more than the pairs do: a launch that broke voids it.
        word=row.word if row else judged.word,
        reason=row.reason if row else judged.reason,
        tested=judged.tested,
        sources=row.sources if row else (),
    )


def _change(control: float, candidate: float, *, more_is_better: bool) -> float:
    return 100 * ((candidate / control if more_is_better else control / candidate) - 1)


def _key(row: Row) -> tuple[object, ...]:
    return row.name, row.mode, row.warmup, row.cache, row.context_tokens
