"""What a forged model must answer, by arithmetic alone.

The model's greedy output is t -> successor[t]. Its MTP layer sees only the embedding of the
token just produced, so the draft that follows token t is right exactly when t is not in
`wrong_drafts`. Everything a request shows (ids, drafts, accepted drafts) follows from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MIN_PROMPT_TOKENS = 2
"""vLLM masks the draft's input at position 0, so a one-token prompt has no defined draft."""


@dataclass(frozen=True)
class Expected:
    """What one greedy request with `ignore_eos` must show."""

    output_ids: tuple[int, ...]
    drafts: int
    """Verify steps that carried a draft (`vllm:spec_decode_num_drafts`)."""
    accepted: int
    """Accepted draft tokens, also one that `max_tokens` trimmed from the output."""

    @property
    def trimmed(self) -> int:
        """Accepted tokens that were not delivered: 0 or 1 with one draft token."""
        if self.drafts == 0:
            return 0
        return 1 + self.drafts + self.accepted - len(self.output_ids)

    @property
    def steps(self) -> int:
        """Decode steps after the prefill: drafts under MTP, tokens - 1 without."""
        return self.drafts or len(self.output_ids) - 1


@dataclass(frozen=True)
class Rule:
    """The map and the set that define a forged model."""

    successor: tuple[int, ...]
    """successor[t] is the greedy token after t; length = vocabulary size."""
    wrong_drafts: frozenset[int]
    """Tokens after which the MTP layer drafts a wrong token."""

    def expected(self, prompt_ids: Sequence[int], output_tokens: int, *, draft_tokens: int = 0) -> Expected:
        """Answer to a greedy request: `prompt_ids` in, exactly `output_tokens` out.

        Args:
            prompt_ids: token ids of the prompt, at least two.
            output_tokens: length of the output, at least 1.
            draft_tokens: 0 without speculative decoding, 1 with native MTP of one draft token.

        Raises:
            ValueError: the request has no answer that arithmetic can give.
        """
        if len(prompt_ids) < MIN_PROMPT_TOKENS:
            raise ValueError(f"a prompt needs at least {MIN_PROMPT_TOKENS} tokens, got {len(prompt_ids)}")
        if output_tokens < 1:
            raise ValueError(f"output_tokens must be at least 1, got {output_tokens}")
        if draft_tokens not in (0, 1):
            raise ValueError(f"a forged model has one MTP layer: draft_tokens is 0 or 1, got {draft_tokens}")

        output = [self.successor[prompt_ids[-1]]]
        while len(output) < output_tokens:
            output.append(self.successor[output[-1]])

        drafts = accepted = 0
        delivered = 1  # the prefill delivers the first token, without a draft
        while draft_tokens and delivered < output_tokens:
            right = output[delivered - 1] not in self.wrong_drafts
            drafts += 1
            accepted += right
            delivered += 1 + right
        return Expected(tuple(output), drafts, accepted)

    def long_run_acceptance(self) -> float:
        """Share of accepted drafts over many turns of the cycle (dimensionless, 0 to 1)."""
        answer = self.expected((0, 0), 64 * len(self.successor), draft_tokens=1)
        return answer.accepted / answer.drafts
