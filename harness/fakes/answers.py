"""Response bodies of vLLM 0.32.0, field by field and in its order; pure but for the place in the text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.fakes.asks import Ask
from harness.fakes.model import Model, words


@dataclass(frozen=True)
class Head:
    """What every body of one response repeats."""

    id: str
    created: int
    model: str
    fingerprint: str

    def fields(self) -> dict[str, Any]:
        """The opening fields."""
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}


@dataclass
class Reply:
    """Writes the bodies of one response, in order; it knows how far the text has come."""

    head: Head
    ask: Ask
    model: Model
    miscount: int = 0
    """Added to every completion count."""
    broken_logprobs: Literal["nan", "null"] | None = None
    """What stands for every logprob; None: the true ones do."""
    _tokens: int = field(default=0, init=False)
    _characters: int = field(default=0, init=False)
    _previous: int = field(default=-1, init=False)

    @property
    def untouched(self) -> bool:
        """Nothing has been written yet."""
        return self._tokens == 0

    def chunk(self, tokens: Sequence[int], finish_reason: str | None) -> dict[str, Any]:
        """One event of a stream."""
        opening = self._tokens == 0
        text, logprobs = self._advance(tokens)
        choice = {
            "index": 0,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "prompt_token_ids": self.ask.prompt_ids if self.ask.token_ids and opening else None,
            "token_ids": tokens if self.ask.token_ids else None,
        }
        body = {**self.head.fields(), "choices": [choice]}
        if finish_reason is not None and not self.ask.usage:
            body["system_fingerprint"] = self.head.fingerprint
        if self.ask.continuous_usage:
            body["usage"] = self._usage()
        return body

    def usage_chunk(self) -> dict[str, Any]:
        """The last event of a stream with `include_usage`."""
        return {
            **self.head.fields(),
            "choices": [],
            "usage": self._usage(),
            "system_fingerprint": self.head.fingerprint,
        }

    def whole(self, tokens: Sequence[int], finish_reason: str) -> dict[str, Any]:
        """The body of a response that is not streamed."""
        text, logprobs = self._advance(tokens)
        choice = {
            "index": 0,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "token_ids": tokens if self.ask.token_ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": self.ask.prompt_ids if self.ask.token_ids else None,
            "routed_experts": None,
        }
        return {
            **self.head.fields(),
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": self.head.fingerprint,
            "usage": {**self._usage(), "prompt_tokens_details": None, "completion_tokens_details": None},
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def _usage(self) -> dict[str, int]:
        prompt, completion = len(self.ask.prompt_ids), self._tokens + self.miscount
        return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}

    def _advance(self, tokens: Sequence[int]) -> tuple[str, dict[str, Any] | None]:
        pieces = words(tokens, first=self._tokens == 0)
        logprobs = None if self.ask.logprobs is None else self._logprobs(tokens, pieces, self.ask.logprobs)
        self._tokens += len(tokens)
        self._characters += sum(map(len, pieces))
        self._previous = tokens[-1] if tokens else self._previous
        return "".join(pieces), logprobs

    def _logprobs(self, tokens: Sequence[int], pieces: Sequence[str], count: int) -> dict[str, Any]:
        previous = self._previous if self._tokens else self.ask.prompt_ids[-1]
        offset = self._characters
        offsets, best, top = [], [], []
        for token, piece in zip(tokens, pieces, strict=True):
            ranked = self.model.top_logprobs(previous, token, count)
            space = piece[: -len(f"w{token}")]  # the rivals stand at the same place in the text
            shown = {f"{space}w{t}": self._logprob(value) for t, value in ranked}
            offsets.append(offset)
            best.append(shown[piece])
            top.append(shown)
            offset += len(piece)
            previous = token
        return {"text_offset": offsets, "token_logprobs": best, "tokens": list(pieces), "top_logprobs": top}

    def _logprob(self, value: float) -> float | None:
        if self.broken_logprobs == "null":
            return None
        return math.nan if self.broken_logprobs == "nan" else value


def model_list(name: str, root: str, created: int, max_model_len: int, permission_id: str) -> dict[str, Any]:
    """The body of /v1/models."""
    permission = {
        "id": f"modelperm-{permission_id}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": root,
        "parent": None,
        "max_model_len": max_model_len,
        "permission": [permission],
    }
    return {"object": "list", "data": [card]}
