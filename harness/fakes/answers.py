"""Response bodies of vLLM 0.32.0, field by field and in its order; pure but for the place in the text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.fakes.asks import Ask
from harness.fakes.model import Model, Step, words


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
class _Written:
    """How far the text of one sequence has come."""

    tokens: int = 0
    characters: int = 0
    previous: int = -1


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
    says: str | None = None
    """Text of the whole output, where it is not that of its tokens."""
    _sequences: dict[int, _Written] = field(default_factory=dict, init=False)

    @property
    def untouched(self) -> bool:
        """Nothing has been written yet."""
        return not self._all_tokens

    def chunk(self, step: Step, finish_reason: str | None) -> dict[str, Any]:
        """One event of a stream."""
        tokens, written = step.tokens, self._sequence(step.sequence)
        opening = written.tokens == 0
        text, logprobs = self._advance(written, tokens)
        choice = {
            "index": step.sequence,
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
            body["usage"] = self._usage(written.tokens)
        return body

    def usage_chunk(self) -> dict[str, Any]:
        """The last event of a stream with `include_usage`."""
        return {
            **self.head.fields(),
            "choices": [],
            "usage": self._usage(self._all_tokens),
            "system_fingerprint": self.head.fingerprint,
        }

    def whole(self, outputs: Sequence[Sequence[int]], finish_reason: str) -> dict[str, Any]:
        """The body of a response that is not streamed; one output per sequence."""
        choices = [self._choice(number, tokens, finish_reason) for number, tokens in enumerate(outputs)]
        return {
            **self.head.fields(),
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": self.head.fingerprint,
            "usage": {
                **self._usage(self._all_tokens),
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def _choice(self, number: int, tokens: Sequence[int], finish_reason: str) -> dict[str, Any]:
        text, logprobs = self._advance(self._sequence(number), tokens)
        return {
            "index": number,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "token_ids": tokens if self.ask.token_ids else None,
            "prompt_logprobs": self._prompt_logprobs(),
            "prompt_token_ids": self.ask.prompt_ids if self.ask.token_ids else None,
            "routed_experts": None,
        }

    def _prompt_logprobs(self) -> list[dict[str, Any] | None] | None:
        if self.ask.prompt_logprobs is None:
            return None
        rows = self.model.prompt_logprobs(self.ask.prompt_ids, self.ask.prompt_logprobs)
        return [None if row is None else self._prompt_token(row) for row in rows]

    def _prompt_token(self, row: dict[int, tuple[float, int]]) -> dict[str, Any]:
        return {
            str(token): {"logprob": self._logprob(value), "rank": rank, "decoded_token": f"w{token}"}
            for token, (value, rank) in row.items()
        }

    def _sequence(self, number: int) -> _Written:
        return self._sequences.setdefault(number, _Written())

    @property
    def _all_tokens(self) -> int:
        return sum(written.tokens for written in self._sequences.values())

    def _usage(self, tokens: int) -> dict[str, int]:
        prompt, completion = len(self.ask.prompt_ids), tokens + self.miscount
        return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}

    def _advance(self, written: _Written, tokens: Sequence[int]) -> tuple[str, dict[str, Any] | None]:
        opening = written.tokens == 0
        pieces = words(tokens, first=opening)
        logprobs = None if self.ask.logprobs is None else self._logprobs(written, tokens, pieces, self.ask.logprobs)
        written.tokens += len(tokens)
        written.characters += sum(map(len, pieces))
        written.previous = tokens[-1] if tokens else written.previous
        if self.says is not None:
            return self.says if opening else "", logprobs
        return "".join(pieces), logprobs

    def _logprobs(self, written: _Written, tokens: Sequence[int], pieces: Sequence[str], count: int) -> dict[str, Any]:
        previous = written.previous if written.tokens else self.ask.prompt_ids[-1]
        offset = written.characters
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
