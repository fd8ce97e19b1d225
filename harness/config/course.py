"""What every launch does once it is ready: contexts, the priming ladder, kinds of request, identity prompts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.config.kinds import KINDS, RequestKind
from harness.config.limits import Positive
from harness.config.strict import Strict


class Context(Strict):
    """One context length and how often it is measured per launch."""

    prompt_tokens: Positive
    prefill_passes: int = Field(3, ge=0)
    decode_passes: int = Field(3, ge=0, description="per number of streams")
    streams: tuple[Positive, ...] = Field((1,), min_length=1, description="decode streams side by side, e.g. [1, 4, 8]")

    @model_validator(mode="after")
    def _streams_are_ordered(self) -> Context:
        if list(self.streams) != sorted(set(self.streams)):
            raise ValueError(f"streams must rise and name nothing twice: {list(self.streams)}")
        return self


class Rung(Strict):
    """One request of the priming ladder."""

    prompt_tokens: Positive
    output_tokens: Positive = 8
    concurrent: Positive = 1
    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: int | None = None


LADDER = (
    *(Rung(prompt_tokens=tokens) for tokens in (64, 2048, 8192, 32_768)),
    Rung(prompt_tokens=64, temperature=1.0, seed=7),
    Rung(prompt_tokens=64, temperature=1.0, top_p=0.9, seed=7),
    Rung(prompt_tokens=64, concurrent=4),
)
"""Every length, and the sampling kernels that a seed, top-p and several sequences take for themselves."""


class Course(Strict):
    """What every launch does once it is ready."""

    contexts: tuple[Context, ...] = Field((Context(prompt_tokens=2048), Context(prompt_tokens=32_768)), min_length=1)
    ladder: tuple[Rung, ...] = LADDER
    kinds: tuple[RequestKind, ...] = Field(KINDS, description="kinds of request, each asked once at the end")
    prompts: Literal["ids", "text"] = Field("ids", description="what decode, identity and needles are asked with")
    needle_output_tokens: Positive = 24
    first_prompt_output_tokens: Positive = 8
    decode_output_tokens: Annotated[int, Field(ge=2)] = 256
    requests_per_stream: int = Field(3, ge=3, description="of each of several decode streams, one after the other")
    identity_prompts: Positive = 16
    identity_prompt_tokens: Annotated[int, Field(ge=2)] = 64
    identity_output_tokens: Positive = 200
    identity_logprobs: int = Field(2, ge=0, le=20)
    prompt_ids_below: Positive | None = Field(None, description="prompt ids are 0 <= id < this; a forged model knows")

    @model_validator(mode="after")
    def _kinds_are_told_apart(self) -> Course:
        names = [kind.name for kind in self.kinds]
        if len(set(names)) != len(names):
            raise ValueError(f"kinds names something twice: {', '.join(names)}")
        return self

    @property
    def longest_context(self) -> int:
        """Prompt tokens of the longest context."""
        return max(c.prompt_tokens for c in self.contexts)

    @property
    def longest_tokens(self) -> int:
        """Longest prompt and output together, in tokens."""
        longest = self.longest_context
        return max(
            longest + max(self.decode_output_tokens, self.first_prompt_output_tokens, self.needle_output_tokens),
            self.identity_prompt_tokens + self.identity_output_tokens,
            *(r.prompt_tokens + r.output_tokens for r in self.ladder),
            *(k.prompt_length(longest, 0) + k.output_tokens for k in self.kinds),  # one of "limit" fits by itself
        )
