"""Where outputs part: the first differing token of each comparison, with what either arm thought of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.case import Case, Cell
from harness.judge.identity import Comparison, Difference, compare
from harness.judge.read import LaunchEvidence
from harness.judge.rows.identity import MEASURED, outputs
from harness.records import OutputRecord, Row, Verdict
from harness.report.text import tokens_text
from harness.words import Arm, Identity, Step

BOTH = (Arm.CONTROL, Arm.CANDIDATE)
BEFORE = 6
"""Tokens that are shown before the one at which outputs part."""


@dataclass(frozen=True)
class Side:
    """What one arm produced at that place."""

    arm: str
    before: tuple[int, ...]
    """The last token ids that both arms share."""
    token: int | None
    """None where its output had ended."""
    best: tuple[str, ...] | None
    """`'w17' -0.105` by falling logprob; None where logprobs were not taken."""
    gap_nat: float | None
    source: str


@dataclass(frozen=True)
class Parting:
    """The first difference of two sets of outputs."""

    where: str
    """`identity prompts`, `measured outputs 2K`."""
    cell: str
    state: Identity
    differing: int
    compared: int
    prompt: int
    token_index: int
    sides: tuple[Side, Side]


def identity_rows(verdict: Verdict) -> list[Row]:
    """Rows that say whether outputs are the same bytes."""
    return [r for r in verdict.rows if r.name.startswith(("identity", "known answers", "outputs make sense"))]


def partings(case: Case) -> list[Parting]:
    """Every cell's comparison that found a difference: an arm with itself, then the arms with each other."""
    return [p for cell in case.cells for p in _of_cell(case, cell)]


def _of_cell(case: Case, cell: Cell) -> Iterator[Parting]:
    near = case.plan.profile.gates.near_tie_nat
    place = f"{cell.mode} {cell.warmup} {cell.cache_label}"
    passes = {arm: list(_passes(side)) for arm, side in cell.arms()}
    for arm, found in passes.items():
        itself = _Question(f"identity prompts, {arm} with itself", place, (arm, arm), near)
        yield from itself.first(found[:1], found[1:])
    control, candidate = passes[Arm.CONTROL], passes[Arm.CANDIDATE]
    yield from _Question("identity prompts", place, BOTH, near).first(control[:1], candidate)
    for context in case.contexts:
        sides = [[o for x in side for o in _measured(x, context)] for _, side in cell.arms()]
        yield from _Question(f"measured outputs {tokens_text(context)}", place, BOTH, near).first(sides[:1], sides[1:])


Output = tuple[LaunchEvidence, OutputRecord]


def _passes(side: Sequence[LaunchEvidence]) -> Iterator[list[Output]]:
    for launch in side:
        for number in (0, 1):
            if found := outputs(launch, Step.IDENTITY, None, number):
                yield [(launch, o) for o in found]


def _measured(launch: LaunchEvidence, context: int) -> Iterator[Output]:
    for step in MEASURED:
        yield from ((launch, o) for o in outputs(launch, step, context, None))


@dataclass(frozen=True)
class _Question:
    """What is compared with what."""

    where: str
    cell: str
    arms: tuple[Arm, Arm]
    near_tie_nat: float

    def first(self, base: Sequence[Sequence[Output]], others: Sequence[Sequence[Output]]) -> Iterator[Parting]:
        """Where the first of the others parts from the base; nothing where none does."""
        for other in others if base else ():
            outputs_of = [[o for _, o in side] for side in (base[0], other)]
            found: Comparison = compare(outputs_of[0], outputs_of[1], near_tie_nat=self.near_tie_nat)
            if found.differing:
                at = found.differing[0]
                yield Parting(
                    where=self.where,
                    cell=self.cell,
                    state=found.state,
                    differing=len(found.differing),
                    compared=found.compared,
                    prompt=at.index,
                    token_index=at.token_index,
                    sides=(
                        _side(self.arms[0], base[0][at.index], at, at.gap_nat),
                        _side(self.arms[1], other[at.index], at, at.candidate_gap_nat),
                    ),
                )
                return


def _side(arm: Arm, side: Output, at: Difference, gap: float | None) -> Side:
    launch, output = side
    place = at.token_index
    best = None
    if output.top_logprobs and place < len(output.top_logprobs):
        ranked = sorted(
            output.top_logprobs[place].items(), key=lambda x: -math.inf if x[1] is None else x[1], reverse=True
        )
        best = tuple(f"{token!r} {'no number' if v is None else f'{v:.3f}'}" for token, v in ranked)
    return Side(
        arm=str(arm),
        before=output.token_ids[max(0, place - BEFORE) : place],
        token=output.token_ids[place] if place < len(output.token_ids) else None,
        best=best,
        gap_nat=gap,
        source=f"launches/{launch.folder.id}/outputs.jsonl request {output.request}",
    )
