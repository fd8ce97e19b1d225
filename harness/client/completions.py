"""One streamed completion: serialised first, timed at the socket, understood afterwards."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import requests
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.client.sse import DONE, split_events
from harness.client.transport import COMPLETIONS, Received, receive


@dataclass(frozen=True)
class Ask:
    """What is asked. Everything that a server's defaults could change is sent explicitly."""

    model: str
    prompt_ids: list[int]
    output_tokens: int
    cache_salt: str
    """Differs per request: the same prompt asked twice must not be answered from the prefix cache."""
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    logprobs: int | None = None

    def body(self) -> bytes:
        """The request's JSON."""
        fields: dict[str, Any] = {
            "model": self.model,
            "prompt": self.prompt_ids,
            "max_tokens": self.output_tokens,
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
        if self.logprobs is not None:
            fields["logprobs"] = self.logprobs
        return json.dumps(fields, separators=(",", ":")).encode()

    def sampling(self) -> dict[str, int | float]:
        """What makes this request other than greedy and plain."""
        given = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed, "logprobs": self.logprobs}
        return {
            k: v for k, v in given.items() if v is not None and (k, v) not in {("temperature", 0.0), ("top_p", 1.0)}
        }


@dataclass(frozen=True)
class Answer:
    """What came back, with times in monotonic ns."""

    begin_ns: int
    sent_ns: int | None
    end_ns: int
    status: int | None
    first_token_ns: int | None = None
    """The first event that bore a token of any kind: an id, text, reasoning, a tool call, or a count above 0."""
    event_ns: tuple[int, ...] = ()
    event_tokens: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    top_logprobs: tuple[dict[str, float | None], ...] = ()
    error: str | None = None


class Asked(Protocol):
    """Anything that can be sent: a completion or a chat."""

    def body(self) -> bytes:
        """The request's JSON."""


class _Sent(BaseModel):
    """Part of an event, its types as vLLM documents them: a server under test may send anything."""

    model_config = ConfigDict(strict=True)


class _Logprobs(_Sent):
    top_logprobs: list[dict[str, float | None]] | None = None


class _Delta(_Sent):
    """A piece of a chat's message; servers and versions differ in the name of its reasoning."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None

    @property
    def thought(self) -> str:
        # Versions in between send both names, with the same text.
        return self.reasoning or self.reasoning_content or ""


class _Choice(_Sent):
    token_ids: list[int] | None = None
    text: str | None = None
    delta: _Delta = _Delta()
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Usage(_Sent):
    prompt_tokens: int
    completion_tokens: int


class _Event(_Sent):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


@dataclass
class _Parsed:
    first_token_ns: int | None = None
    event_ns: list[int] = field(default_factory=list)
    event_tokens: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    top_logprobs: list[dict[str, float | None]] = field(default_factory=list)
    error: str | None = None
    done: bool = False


def complete(
    session: requests.Session, base_url: str, ask: Asked, *, deadline_s: float, path: str = COMPLETIONS
) -> Answer:
    """Send one request, read its stream to the end, and understand it.

    Nothing is raised: whatever went wrong is the answer's `error`, beside all that had come by then.

    Args:
        session: one per thread.
        base_url: of the server, without a trailing slash.
        ask: the request.
        deadline_s: the whole request must end within this; a server that trickles for ever does not pass.
        path: the endpoint.
    """
    return understood(receive(session, f"{base_url}{path}", ask.body(), deadline_s=deadline_s))


def understood(received: Received) -> Answer:
    """What a response says; to be called when no stream runs any more."""
    begin, sent, end, status = received.begin_ns, received.sent_ns, received.end_ns, received.status
    if status is not None and status != 200:
        excerpt = b"".join(c for _, c in received.chunks)[:500].decode("utf-8", "replace")
        return Answer(begin, sent, end, status, error=received.error or f"HTTP {status}: {excerpt}")
    parsed = _parse(received.chunks)
    error = received.error or parsed.error or (None if parsed.done else "the stream ended without [DONE]")
    return Answer(
        begin,
        sent,
        end,
        status,
        first_token_ns=parsed.first_token_ns,
        event_ns=tuple(parsed.event_ns),
        event_tokens=tuple(parsed.event_tokens),
        token_ids=tuple(parsed.token_ids),
        text="".join(parsed.text),
        reasoning="".join(parsed.reasoning),
        finish_reason=parsed.finish_reason,
        prompt_tokens=parsed.prompt_tokens,
        completion_tokens=parsed.completion_tokens,
        top_logprobs=tuple(parsed.top_logprobs),
        error=error,
    )


def _parse(chunks: Iterable[tuple[int, bytes]]) -> _Parsed:
    parsed = _Parsed()
    for time_ns, data in split_events(chunks):
        if data == DONE:
            parsed.done = True
            continue
        try:
            _take_event(parsed, time_ns, _Event.model_validate_json(data))
        except ValidationError as e:
            fault = e.errors(include_url=False)[0]
            where = ".".join(map(str, fault["loc"]))
            excerpt = data[:200].decode("utf-8", "replace")
            parsed.error = parsed.error or f"not a completion event ({where}: {fault['msg']}): {excerpt}"
    return parsed


def _take_event(parsed: _Parsed, time_ns: int, event: _Event) -> None:
    if event.error is not None:
        parsed.error = f"error event: {json.dumps(event.error)[:500]}"
        return
    tokens = 0
    bears_token = False
    for choice in event.choices:
        tokens += len(choice.token_ids or ())
        parsed.token_ids += choice.token_ids or ()
        text, thought = choice.text or choice.delta.content or "", choice.delta.thought
        parsed.text.append(text)
        parsed.reasoning.append(thought)
        bears_token = bears_token or bool(text or thought or choice.delta.tool_calls)
        parsed.finish_reason = choice.finish_reason or parsed.finish_reason
        if choice.logprobs is not None:
            parsed.top_logprobs += map(_finite, choice.logprobs.top_logprobs or ())
    if event.usage is not None:
        # Cumulative: the last one counts. Servers without return_token_ids still tell tokens per event.
        before = parsed.completion_tokens or 0
        parsed.prompt_tokens = event.usage.prompt_tokens
        parsed.completion_tokens = event.usage.completion_tokens
        tokens = tokens if parsed.token_ids else parsed.completion_tokens - before
    if parsed.first_token_ns is None and (bears_token or tokens > 0):
        parsed.first_token_ns = time_ns
    if tokens > 0:
        parsed.event_ns.append(time_ns)
        parsed.event_tokens.append(tokens)


def _finite(logprobs: dict[str, float | None]) -> dict[str, float | None]:
    """A NaN, which JSON has not, as the None that vLLM itself writes in a stream."""
    return {token: value if value is not None and math.isfinite(value) else None for token, value in logprobs.items()}
