"""Whose speed is it? An eager engine has its host start every kernel, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case, launches_of
from harness.judge.rates import decode_pass
from harness.judge.read import LaunchEvidence
from harness.observe.log import Kind
from harness.records import Row
from harness.words import Arm, Cache, Step, Word

NAME = "served eager"


def rows(case: Case) -> Iterator[Row]:
    """One row where an engine on GPUs says that it is eager; nothing for the others, or one on the CPU."""
    if not case.plan.profile.host.gpus:
        return
    sides = [[x for x in launches_of(case.cells, arm) if x.ready_ns is not None] for arm in Arm]
    said = {x.folder.id: (x, found[0]) for side in sides for x in side if (found := x.of_kind(Kind.EAGER))}
    if not said:
        return
    reason = "no CUDA graphs: the host starts every kernel, and decode and short prompts run at its speed, too"
    warm = [cell for cell in case.cells if cell.cache is Cache.WARM]
    judged = (x for arm in Arm for x in launches_of(warm, arm))
    spread = max((s for x in judged if x.folder.id in said for s in _spreads(x, case.contexts)), default=None)
    if spread is not None:
        reason += f"; decode passes of one warm launch differ by up to {spread:.1f} %"
    control, candidate = (f"{sum(x.folder.id in said for x in side)} of {len(side)}" for side in sides)
    yield Row(
        name=NAME,
        control=control,
        candidate=candidate,
        unit="launches",
        word=Word.NOTE,
        reason=f"{reason}; judge speed without enforce-eager",
        sources=tuple(x.place(line) for x, line in said.values()),
    )


def _spreads(launch: LaunchEvidence, contexts: list[int]) -> Iterator[float]:
    """Slowest to fastest decode pass of each context, per cent of the slowest."""
    for context in contexts:
        passes = [decode_pass(w) for w in launch.windows_of(Step.DECODE, context)]
        rates = [p.steps_per_s for p in passes if p is not None]
        if len(rates) > 1:
            yield 100 * (max(rates) / min(rates) - 1)
