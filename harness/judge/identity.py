"""Are the outputs of two runs the same bytes, and if not, where and how badly do they part?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records import OutputRecord
from harness.words import Identity


@dataclass(frozen=True)
class Difference:
    """The first place where two outputs of the same prompt part."""

    index: int
    """Place of the prompt within its set."""
    token_index: int
    """First output token that differs; the shorter length where one output is a prefix of the other."""
    control_token: int | None
    candidate_token: int | None
    gap_nat: float | None
    """Logprob gap of the two best candidates in the control at that token; None without logprobs."""


@dataclass(frozen=True)
class Comparison:
    """Two sets of outputs, compared prompt by prompt."""

    state: Identity
    compared: int
    differing: tuple[Difference, ...] = ()
    reason: str = ""

    def text(self) -> str:
        """For a row: the state and where the first difference lies."""
        if self.state is Identity.NOT_COMPARABLE:
            return self.reason
        if not self.differing:
            return f"{self.compared} of {self.compared} outputs are the same bytes"
        first = self.differing[0]
        gap = "logprobs not taken" if first.gap_nat is None else f"gap {first.gap_nat:.3f} nat"
        return (
            f"{len(self.differing)} of {self.compared} outputs differ; first: prompt {first.index}, "
            f"token {first.token_index}: {first.control_token} vs {first.candidate_token} ({gap})"
        )


def compare(control: Sequence[OutputRecord], candidate: Sequence[OutputRecord], *, near_tie_nat: float) -> Comparison:
    """Compare outputs of the same prompts in the same order.

    An empty output makes the whole comparison void of meaning, so it is not comparable, never
    identical. A difference is a near tie when the control's two best candidates lie within
    `near_tie_nat` of each other at that token.
    """
    if not control or len(control) != len(candidate):
        return Comparison(
            Identity.NOT_COMPARABLE,
            0,
            reason=f"{len(control)} outputs of the control, {len(candidate)} of the candidate",
        )
    if any(not o.sha256 for o in (*control, *candidate)):
        return Comparison(
            Identity.NOT_COMPARABLE, 0, reason="an output is empty, and equal hashes of nothing prove nothing"
        )
    differences = tuple(
        _difference(index, one, other)
        for index, (one, other) in enumerate(zip(control, candidate, strict=True))
        if one.sha256 != other.sha256
    )
    if not differences:
        return Comparison(Identity.IDENTICAL, len(control))
    near = all(d.gap_nat is not None and d.gap_nat <= near_tie_nat for d in differences)
    return Comparison(Identity.NEAR_TIE if near else Identity.DIVERGED, len(control), differences)


def _difference(index: int, control: OutputRecord, candidate: OutputRecord) -> Difference:
    ours, theirs = control.token_ids, candidate.token_ids
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    gap = None
    if control.top_logprobs and place < len(control.top_logprobs):
        known = sorted((v for v in control.top_logprobs[place].values() if v is not None), reverse=True)
        gap = known[0] - known[1] if len(known) > 1 else None
    return Difference(
        index=index,
        token_index=place,
        control_token=ours[place] if place < len(ours) else None,
        candidate_token=theirs[place] if place < len(theirs) else None,
        gap_nat=gap,
    )
