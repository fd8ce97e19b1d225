"""A completion request, checked with vLLM's words and codes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.fakes.model import read_words

DEFAULT_MAX_TOKENS = 16
MAX_LOGPROBS = 20


class ApiError(Exception):
    """An answer other than 200, in the shape of vLLM's `ErrorResponse`."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    def body(self) -> dict[str, Any]:
        """The response's JSON."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}}


@dataclass(frozen=True)
class Ask:
    """What of a completion request decides the answer; sampling fields are accepted and ignored."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    logprobs: int | None
    prompt_logprobs: int | None
    n: int
    token_ids: bool
    stream: bool
    usage: bool
    continuous_usage: bool

    @property
    def total_tokens(self) -> int:
        """Tokens of the longest sequence that this may become."""
        return len(self.prompt_ids) + self.max_tokens


def read_json(data: bytes) -> Mapping[str, Any]:
    """The JSON object of a request body.

    Raises:
        ApiError: it is none.
    """
    try:
        body = json.loads(data)
    except ValueError as e:
        raise ApiError(400, f"1 validation error:\n  JSON decode error: {e}", "Bad Request") from e
    if not isinstance(body, dict):
        raise ApiError(400, "1 validation error:\n  Input should be a valid dictionary", "Bad Request")
    return body


def read_ask(body: Mapping[str, Any], *, served_name: str, vocab: int, max_model_len: int) -> Ask:
    """Check a completion request, but for the sum of prompt and output (see `check_total`).

    Raises:
        ApiError: vLLM would refuse it.
    """
    check_model(body, served_name)
    prompt = read_prompt(body.get("prompt"), vocab)
    max_tokens = _whole(body, "max_tokens", DEFAULT_MAX_TOKENS)
    if max_tokens > max_model_len:
        raise _limit(
            f"max_tokens={max_tokens} cannot be greater than max_model_len={max_model_len}. "
            "Please request fewer output tokens.",
            "max_tokens",
            max_tokens,
        )
    if len(prompt) > max_model_len:
        raise _limit(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains "
            f"{len(prompt)} input tokens, which exceeds this limit even without any output tokens. "
            "Please reduce the length of the input prompt.",
            "input_tokens",
            len(prompt),
        )
    if max_tokens < 1 or len(prompt) == max_model_len:
        raise _limit("max_tokens must be at least 1, got 0.", "max_tokens", 0)
    logprobs, prompt_logprobs = (_logprobs(body, name) for name in ("logprobs", "prompt_logprobs"))
    if prompt_logprobs is not None and body.get("stream"):
        message = "`prompt_logprobs` are not available when `stream=True`. (parameter=prompt_logprobs)"
        raise ApiError(400, message, param="prompt_logprobs")
    n = _whole(body, "n", 1)
    if n < 1:
        raise ApiError(400, f"n must be at least 1, got {n}.")
    if n > 1 and body.get("temperature") == 0:
        raise ApiError(400, f"n must be 1 when using greedy sampling, got {n}.")
    options = body.get("stream_options") or {}
    usage = bool(options.get("include_usage"))
    return Ask(
        prompt_ids=prompt,
        max_tokens=max_tokens,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        n=n,
        token_ids=bool(body.get("return_token_ids")),
        stream=bool(body.get("stream")),
        usage=usage,
        continuous_usage=usage and bool(options.get("continuous_usage_stats")),
    )


def check_total(ask: Ask, max_model_len: int) -> None:
    """Refuse prompt and output that together exceed the model's limit.

    vLLM 0.32.0 clips the output instead, without a word; versions before refused. A harness must
    never ask for it, so the fake is loud unless the fault `clip-output` says otherwise.

    Raises:
        ApiError: they do.
    """
    if ask.total_tokens > max_model_len:
        raise _limit(
            f"This model's maximum context length is {max_model_len} tokens. However, you requested "
            f"{ask.max_tokens} output tokens and your prompt contains {len(ask.prompt_ids)} input tokens, for a "
            f"total of {ask.total_tokens} tokens. Please reduce the length of the input prompt or the number of "
            "requested output tokens.",
            "input_tokens",
            len(ask.prompt_ids),
        )


def check_model(body: Mapping[str, Any], served_name: str) -> None:
    """Refuse a request for another model.

    Raises:
        ApiError: it names one.
    """
    name = body.get("model")
    if name is not None and name != served_name:
        message = f"The model `{name}` does not exist. Valid aliases: {served_name}."
        raise ApiError(404, message, "NotFoundError", "model")


def read_prompt(prompt: object, vocab: int) -> tuple[int, ...]:
    """Token ids of a prompt that is a text or a list of ids.

    Raises:
        ApiError: it is neither, or empty, or outside the vocabulary.
    """
    if prompt is None:
        raise ApiError(
            400, "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)", param="prompt"
        )
    if isinstance(prompt, str):
        prompt = read_words(prompt, vocab)
        if not prompt:
            raise ApiError(400, "The decoder prompt cannot be empty")
    if not isinstance(prompt, list) or not all(type(t) is int for t in prompt):
        raise ApiError(400, "The fake takes one prompt: a text or a list of token ids", param="prompt")
    if not prompt:
        raise ApiError(400, "You must pass at least one prompt")
    strange = next((t for t in prompt if not 0 <= t < vocab), None)
    if strange is not None:
        raise ApiError(400, f"Token id {strange} is out of vocabulary")
    return tuple(prompt)


def _logprobs(body: Mapping[str, Any], name: str) -> int | None:
    if body.get(name) is None:
        return None
    count = _whole(body, name, 0)
    if count > MAX_LOGPROBS:
        kind = "prompt" if name == "prompt_logprobs" else "sample"
        told = f"Requested {kind} logprobs of {count}, which is greater than max allowed: {MAX_LOGPROBS}"
        raise _limit(told, name, count)
    return count


def _whole(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int:
        raise ApiError(400, f"1 validation error:\n  {name}: Input should be a valid integer", "Bad Request", name)
    return value


def _limit(message: str, parameter: str, value: int) -> ApiError:
    return ApiError(400, f"{message} (parameter={parameter}, value={value})", param=parameter)
