"""A chat completion as it is asked; what comes back is understood as a completion's is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ChatAsk:
    """A chat of one user message. Everything that a server's defaults could change is sent explicitly."""

    model: str
    message: str
    output_tokens: int
    cache_salt: str
    """Differs per request: the same message asked twice must not be answered from the prefix cache."""
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None

    def body(self) -> bytes:
        """The request's JSON."""
        fields: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": self.message}],
            "max_completion_tokens": self.output_tokens,
            "ignore_eos": True,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "n": 1,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "return_token_ids": True,
            "cache_salt": self.cache_salt,
        }
        if self.seed is not None:
            fields["seed"] = self.seed
        return json.dumps(fields, separators=(",", ":")).encode()
