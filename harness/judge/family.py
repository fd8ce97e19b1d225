"""Every paired metric of a session, judged together: what is primary was fixed in plan.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.judge.case import Case, Cell, both
from harness.judge.cell_identity import planned_sha256
from harness.judge.judgement import Judgement, one_pair
from harness.judge.read import LaunchEvidence
from harness.records import Plan
from harness.records.statistics import Past
from harness.words import Cache, Warmup

if TYPE_CHECKING:
    from harness.judge.paired import PairTest

Figure = Callable[[LaunchEvidence], float | None]
Key = tuple[str, Warmup, Cache, str, int | None]
"""Mode, warm-up, cache state as planned, name of the row, context in tokens."""


@dataclass(frozen=True)
class Metric:
    """A figure of a launch that pairs of launches are compared by."""

    name: str
    """Of its row."""
    context_tokens: int | None
    figure: Figure
    margin_pct: float
    more_is_better: bool
    gated: bool = True
    """May be primary. False for what is looked at, and never decides."""

    def key(self, cell: Cell) -> Key:
        """The metric in a cell."""
        return cell.mode, cell.warmup, cell.cache, self.name, self.context_tokens


def primary_name(mode: str, name: str, context_tokens: int | None) -> str:
    """How plan.json names a primary metric: `mtp1 decode steps 2048`; in every warm cell of its mode."""
    return " ".join(str(part) for part in (mode, name, context_tokens) if part is not None)


def is_primary(plan: Plan, cell: Cell, metric: Metric) -> bool:
    """True where plan.json names the metric. Older plans named none by its row: there every gate is one."""
    named = any(name.partition(" ")[0] in plan.profile.modes for name in plan.primary_metrics)
    if not (metric.gated and named):
        return metric.gated
    name = primary_name(cell.mode, metric.name, metric.context_tokens)
    return cell.cache is Cache.WARM and name in plan.primary_metrics


def judge_family(case: Case, metrics: Callable[[Case, Cell], Iterator[Metric]]) -> Mapping[Key, Judgement]:
    """The judgement of every metric that has a pair: Holm over the primary, Benjamini-Hochberg over the rest."""
    found: dict[Key, Judgement] = {}
    primary: dict[Key, PairTest] = {}
    secondary: dict[Key, PairTest] = {}
    for cell in case.cells:
        for metric in metrics(case, cell):
            control, candidate = _positive(*both(*cell.timed(metric.figure)))
            if len(control) == 1:
                found[metric.key(cell)] = one_pair(control[0], candidate[0], more_is_better=metric.more_is_better)
            elif control:
                family = primary if is_primary(case.plan, cell, metric) else secondary
                family[metric.key(cell)] = _measured(case, cell, metric, (control, candidate))
    return found | dict(_primary(primary)) | dict(_secondary(secondary))


def _measured(case: Case, cell: Cell, metric: Metric, pairs: tuple[list[float], list[float]]) -> PairTest:
    past = _past(case.plan, metric.key(cell))
    foreign = past is not None and not _same_cell(past, case, cell)
    from harness.judge.paired import measure_pairs  # noqa: PLC0415  # half a second, only where there is spread

    return measure_pairs(
        *pairs,
        margin_pct=metric.margin_pct,
        more_is_better=metric.more_is_better,
        past=past,
        foreign=foreign,
        looks=case.plan.looks,
    )


def _primary(tests: Mapping[Key, PairTest]) -> Iterator[tuple[Key, Judgement]]:
    if tests:
        from harness.judge.paired import conclude  # noqa: PLC0415
        from harness.judge.stats.families import holm  # noqa: PLC0415

        worse = holm([t.p_regressed for t in tests.values()])
        better = holm([t.p_improved for t in tests.values()])
        for (key, test), p_worse, p_better in zip(tests.items(), worse, better, strict=True):
            judged = conclude(test, p_regressed=p_worse, p_improved=p_better, claims=len(tests))
            yield key, replace(judged, ratios=test.differences)


def _secondary(tests: Mapping[Key, PairTest]) -> Iterator[tuple[Key, Judgement]]:
    if tests:
        from harness.judge.paired import explore  # noqa: PLC0415
        from harness.judge.stats.families import benjamini_hochberg  # noqa: PLC0415

        adjusted = benjamini_hochberg([t.p_different for t in tests.values()])
        for (key, test), p in zip(tests.items(), adjusted, strict=True):
            yield key, replace(explore(test, p_adjusted=p), ratios=test.differences)


def _positive(control: list[float], candidate: list[float]) -> tuple[list[float], list[float]]:
    """Pairs that have a ratio; a rate or a time of nothing is a clock that jumped, and no figure."""
    pairs = [(a, b) for a, b in zip(control, candidate, strict=True) if a > 0 and b > 0]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _past(plan: Plan, key: Key) -> Past | None:
    return next((x for x in plan.history if (x.mode, x.warmup, x.cache, x.name, x.context_tokens) == key), None)


def _same_cell(past: Past, case: Case, cell: Cell) -> bool:
    """False for noise of something else: a cache that was to be warm and was not, a flag that came later."""
    if past.cell_sha256 is None:
        return True
    return past.cell_sha256 == planned_sha256(case, cell, past.context_tokens)
