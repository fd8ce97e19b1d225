"""tok/s taken apart: the engine's steps/s times the tokens that a step delivers (DESIGN 5)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from harness.judge.case import Case, Cell, both
from harness.judge.read import LaunchEvidence
from harness.judge.rows import speed
from harness.report.text import tokens_text

Figure = Callable[[LaunchEvidence, int], float | None]


@dataclass(frozen=True)
class Part:
    """One of the three figures: medians over the launches of each arm, and the change from pair to pair."""

    control: float
    candidate: float
    change_log: float
    """Mean over the pairs of log(candidate / control)."""

    @property
    def change_pct(self) -> float:
        """The same in percent."""
        return 100 * math.expm1(self.change_log)


@dataclass(frozen=True)
class Split:
    """One cell at one context."""

    mode: str
    warmup: str
    cache: str
    context_tokens: int
    tokens: Part
    steps: Part
    per_step: Part | None
    """None without speculation, where a step is a token."""
    pairs: int
    sources: tuple[str, ...]

    @property
    def title(self) -> str:
        """`mtp1 engine warm 32K`."""
        return f"{self.mode} {self.warmup} {self.cache} {tokens_text(self.context_tokens)}"


def splits(case: Case) -> list[Split]:
    """Every cell and context with a decode rate in both arms of a pair."""
    found = [_split(case, cell, context) for cell in case.cells for context in case.contexts]
    return [s for s in found if s is not None]


def _split(case: Case, cell: Cell, context: int) -> Split | None:
    tokens = _part(cell, speed.tokens_per_s, context)
    steps = _part(cell, speed.steps_per_s, context)
    per_step = _part(cell, speed.delivered_per_step, context) if case.draft_tokens(cell.mode) else None
    if tokens is None or steps is None:
        return None
    return Split(
        mode=cell.mode,
        warmup=str(cell.warmup),
        cache=cell.cache_label,
        context_tokens=context,
        tokens=tokens,
        steps=steps,
        per_step=per_step,
        pairs=len(cell.control),
        sources=tuple(f"launches/{x.folder.id}/requests.jsonl" for _, side in cell.arms() for x in side),
    )


def _part(cell: Cell, figure: Figure, context: int) -> Part | None:
    control, candidate = both(*cell.timed(lambda launch: figure(launch, context)))
    if not control or min(*control, *candidate) <= 0:
        return None
    logs = [math.log(b / a) for a, b in zip(control, candidate, strict=True)]
    return Part(statistics.median(control), statistics.median(candidate), statistics.fmean(logs))
