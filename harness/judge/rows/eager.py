"""Whose speed is it? An eager engine has its host start every kernel, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case
from harness.judge.rates import decode_pass
from harness.judge.read import LaunchEvidence
from harness.observe.log import Kind
from harness.records import Row
from harness.words import Step, Word

NAME = "served eager"


def rows(case: Case) -> Iterator[Row]:
    """One row where an engine on GPUs says that it is eager; nothing for the others, or one on the CPU."""
    if not case.plan.profile.host.gpus:
        return
    launches = [x for cell in case.cells for _, side in cell.arms() for x in side if x.ready_ns is not None]
    said = {x.folder.id: found[0] for x in launches if (found := x.of_kind(Kind.EAGER))}
    if not said:
        return
    reason = "no CUDA graphs: the host starts every kernel, so PP and TG are its speed as much as the GPU's"
    spread = max((s for x in launches if x.folder.id in said for s in _spreads(x, case.contexts)), default=None)
    if spread is not None:
        reason += f"; decode passes of one launch differ by up to {spread:.1f} %"
    yield Row(
        name=NAME,
        control=f"{len(said)} of {len(launches)} launches",
        word=Word.NOTE,
        reason=f"{reason}; judge speed without enforce-eager",
        sources=tuple(x.place(said[x.folder.id]) for x in launches if x.folder.id in said),
    )


def _spreads(launch: LaunchEvidence, contexts: list[int]) -> Iterator[float]:
    """Slowest to fastest decode pass of each context, per cent of the slowest."""
    for context in contexts:
        passes = [decode_pass(w) for w in launch.windows_of(Step.DECODE, context)]
        rates = [p.steps_per_s for p in passes if p is not None]
        if len(rates) > 1:
            yield 100 * (max(rates) / min(rates) - 1)
