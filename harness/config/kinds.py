"""Kinds of request that take kernels, or memory, of their own: each is asked once at the end of a launch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.config.strict import Strict

LONGEST: Literal["longest"] = "longest"
LIMIT: Literal["limit"] = "limit"

Positive = Annotated[int, Field(ge=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]


class RequestKind(Strict):
    """One request of a kind; what is not set is greedy and plain."""

    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9\-]*$")
    prompt_tokens: Positive | Literal["longest", "limit"] = Field(
        64, description='"longest" = the longest context, "limit" = all that max-model-len leaves'
    )
    output_tokens: Positive = 16
    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: int | None = None
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    prompt_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    n: Positive = Field(1, description="sequences of one request")

    @model_validator(mode="after")
    def _can_be_served(self) -> RequestKind:
        if self.n > 1 and not self.temperature:
            raise ValueError(f"kind `{self.name}`: n = {self.n} needs a temperature above 0; vLLM refuses it greedy")
        return self

    def prompt_length(self, longest_context: int, limit: int) -> int:
        """Tokens of the prompt.

        Args:
            longest_context: tokens of the course's longest context.
            limit: tokens that a prompt and its output may have together.
        """
        if self.prompt_tokens == LIMIT:
            return limit - self.output_tokens
        return longest_context if self.prompt_tokens == LONGEST else self.prompt_tokens


KINDS: tuple[RequestKind, ...] = (
    RequestKind(name="greedy"),
    RequestKind(name="seeded", temperature=1.0, seed=7),
    RequestKind(name="top-p", temperature=1.0, top_p=0.9, seed=7),
    RequestKind(name="penalties", presence_penalty=0.5, frequency_penalty=0.5, repetition_penalty=1.1),
    RequestKind(name="logprobs", logprobs=5),
    RequestKind(name="n-2", temperature=1.0, seed=7, n=2),
    # The last: logits of every prompt token are the most memory that one request can take, and an engine
    # that runs out of it has served everything else by then.
    RequestKind(name="prompt-logprobs", prompt_tokens=LONGEST, prompt_logprobs=1),
)
"""Kinds in the order in which they are asked; greedy comes first and tells what a short request takes anyway."""
