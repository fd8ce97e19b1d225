"""What is asked of a server, and the JSON that asks for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from harness.config.kinds import RequestKind


@dataclass(frozen=True)
class Sampling:
    """Everything about a request but its prompt and length. The defaults are greedy and plain."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    n: int = 1
    """Sequences that are sampled for the one prompt."""

    @classmethod
    def of(cls, kind: RequestKind) -> Sampling:
        """How a kind of request is sampled."""
        return cls(**kind.model_dump(include={field.name for field in fields(cls)}))

    def set_apart(self) -> dict[str, int | float]:
        """What makes this request other than greedy and plain."""
        return {name: value for name, value in vars(self).items() if value != vars(PLAIN)[name]}


PLAIN = Sampling()


@dataclass(frozen=True)
class Ask:
    """What is asked. Everything that a server's defaults could change is sent explicitly."""

    model: str
    prompt_ids: list[int]
    output_tokens: int
    """Of each sequence."""
    cache_salt: str
    """Differs per request: the same prompt asked twice must not be answered from the prefix cache."""
    sampling: Sampling = field(default=PLAIN)

    @property
    def stream(self) -> bool:
        """Prompt logprobs come in one piece: vLLM refuses to stream them."""
        return self.sampling.prompt_logprobs is None

    def body(self) -> bytes:
        """The request's JSON."""
        given = {name: value for name, value in vars(self.sampling).items() if value is not None}
        fields: dict[str, Any] = {
            "model": self.model,
            "prompt": self.prompt_ids,
            "max_tokens": self.output_tokens,
            "ignore_eos": True,
            "top_k": -1,
            "min_p": 0.0,
            **given,
            "stream": self.stream,
            "return_token_ids": True,
            "cache_salt": self.cache_salt,
        }
        if self.stream:
            # Of several sequences each event's usage counts its own one only, so only the last is asked for.
            fields["stream_options"] = {"include_usage": True, "continuous_usage_stats": self.sampling.n == 1}
        return json.dumps(fields, separators=(",", ":")).encode()
