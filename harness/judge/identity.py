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
    candidate_gap_nat: float | None
    """The same in the candidate."""
    same_two: bool
    """Both arms have the same two best candidates at that token."""

    def near_tie(self, limit_nat: float) -> bool:
        """Only rounding parts them: in both arms the same two tokens are best, and nearly equal."""
        gaps = (self.gap_nat, self.candidate_gap_nat)
        return self.same_two and all(gap is not None and gap <= limit_nat for gap in gaps)


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
        gap = f"gap {_nat(first.gap_nat)}, in the candidate {_nat(first.candidate_gap_nat)}"
        if first.gap_nat is first.candidate_gap_nat is None:
            gap = "logprobs not taken"
        return (
            f"{len(self.differing)} of {self.compared} outputs differ; first: prompt {first.index}, "
            f"token {first.token_index}: {first.control_token} vs {first.candidate_token} ({gap})"
        )


def compare(control: Sequence[OutputRecord], candidate: Sequence[OutputRecord], *, near_tie_nat: float) -> Comparison:
    """Compare outputs of the same prompts in the same order.

    An empty output makes the whole comparison void of meaning, so it is not comparable, never
    identical. A difference is a near tie when both arms have the same two best candidates at that
    token, within `near_tie_nat` of each other: a token that the control never considered, or one
    that the candidate is sure of, is more than rounding.
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
    near = all(d.near_tie(near_tie_nat) for d in differences)
    return Comparison(Identity.NEAR_TIE if near else Identity.DIVERGED, len(control), differences)


def _difference(index: int, control: OutputRecord, candidate: OutputRecord) -> Difference:
    ours, theirs = control.token_ids, candidate.token_ids
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    best = [_two_best(x, place) for x in (control, candidate)]
    gaps = [two[0][0] - two[1][0] if len(two) == 2 else None for two in best]
    return Difference(
        index=index,
        token_index=place,
        control_token=ours[place] if place < len(ours) else None,
        candidate_token=theirs[place] if place < len(theirs) else None,
        gap_nat=gaps[0],
        candidate_gap_nat=gaps[1],
        same_two={text for _, text in best[0]} == {text for _, text in best[1]},
    )


def _two_best(output: OutputRecord, place: int) -> list[tuple[float, str]]:
    """(logprob, text) of the two best candidates at a token, fewer where they were not taken."""
    if not output.top_logprobs or place >= len(output.top_logprobs):
        return []
    known = [(value, text) for text, value in output.top_logprobs[place].items() if value is not None]
    return sorted(known, reverse=True)[:2]


def _nat(gap: float | None) -> str:
    return "unknown" if gap is None else f"{gap:.3f} nat"
