"""A chat completion's bodies, made from those of a completion: vLLM 0.32.0's fields in its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.fakes.asks import ApiError
from harness.fakes.model import read_words

Body = Mapping[str, Any]


def as_completion(body: Body, vocab: int) -> dict[str, Any]:
    """The completion that a chat comes to: its template is the messages' words, one after the other.

    Raises:
        ApiError: there are no messages.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages) or not messages:
        raise ApiError(400, "1 validation error:\n  messages: Input should be a valid list", "Bad Request", "messages")
    prompt = [t for m in messages for t in read_words(_text(m.get("content")), vocab)]
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    return {**body, "prompt": prompt or [0], "max_tokens": limit, "logprobs": None}


def role_chunk(chunk: Body) -> dict[str, Any]:
    """The event before the first token: a role, no content, no token; it holds the prompt's ids."""
    choice = chunk["choices"][0]
    body = {
        **_head(chunk, "chat.completion.chunk"),
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        ],
        "prompt_token_ids": choice["prompt_token_ids"],
        "prompt_text": None,
    }
    if "usage" in chunk:
        prompt = chunk["usage"]["prompt_tokens"]
        body["usage"] = {"prompt_tokens": prompt, "total_tokens": prompt, "completion_tokens": 0}
    return body


def token_chunk(chunk: Body, *, reasoning: bool) -> dict[str, Any]:
    """An event with tokens: their text is content, or reasoning where a parser is at work."""
    [choice] = chunk["choices"]
    told = {"index": 0, "delta": {"reasoning" if reasoning else "content": choice["text"]}, "logprobs": None}
    told["finish_reason"] = choice["finish_reason"]
    if choice["finish_reason"] is not None:
        told["stop_reason"] = None
    if choice["token_ids"] is not None:
        told["token_ids"] = choice["token_ids"]
    body = {**_head(chunk, "chat.completion.chunk"), "choices": [told]}
    return {**body, **_kept(chunk, ("usage", "system_fingerprint"))}


def usage_chunk(chunk: Body) -> dict[str, Any]:
    """The last event of a stream with `include_usage`."""
    kept = _kept(chunk, ("usage", "system_fingerprint"))
    return {**_head(chunk, "chat.completion.chunk"), "choices": [], **kept}


def whole(body: Body) -> dict[str, Any]:
    """The body of a response that is not streamed."""
    [choice] = body["choices"]
    message = {"role": "assistant", "content": choice["text"], "refusal": None, "tool_calls": [], "reasoning": None}
    told = {"index": 0, "message": message, "logprobs": None, "finish_reason": choice["finish_reason"]}
    told |= {"stop_reason": None, "token_ids": choice["token_ids"]}
    kept = _kept(body, ("service_tier", "system_fingerprint", "usage"))
    return {
        **_head(body, "chat.completion"),
        "choices": [told],
        **kept,
        "prompt_token_ids": choice["prompt_token_ids"],
    }


def _head(body: Body, kind: str) -> dict[str, Any]:
    number = body["id"].removeprefix("cmpl-")
    return {"id": f"chatcmpl-{number}", "object": kind, "created": body["created"], "model": body["model"]}


def _kept(body: Body, names: Sequence[str]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def _text(content: object) -> str:
    """Text of a message whose content is one, or a list of parts."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
