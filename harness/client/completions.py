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
class Sequence:
    """One of the sequences that a request asked for."""

    token_ids: tuple[int, ...] = ()
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    top_logprobs: tuple[dict[str, float | None], ...] = ()


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
    sequences: tuple[Sequence, ...] = ()
    """By their index; one, unless the request asked for several."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_logprobs: tuple[float | None, ...] | None = None
    """Logprob of each prompt token but the first, None for a NaN; None where none came."""
    error: str | None = None

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Of the first sequence, as all below."""
        return self._first.token_ids

    @property
    def text(self) -> str:
        """Text."""
        return self._first.text

    @property
    def reasoning(self) -> str:
        """Reasoning, where a chat tells it apart."""
        return self._first.reasoning

    @property
    def finish_reason(self) -> str | None:
        """Why it ended."""
        return self._first.finish_reason

    @property
    def top_logprobs(self) -> tuple[dict[str, float | None], ...]:
        """The best candidates at each token."""
        return self._first.top_logprobs

    @property
    def _first(self) -> Sequence:
        return self.sequences[0] if self.sequences else Sequence()


class Asked(Protocol):
    """Anything that can be sent: a completion or a chat."""

    def body(self) -> bytes:
        """The request's JSON."""


class _Sent(BaseModel):
    """Part of an event, its types as vLLM documents them: a server under test may send anything."""

    model_config = ConfigDict(strict=True)


class _Logprobs(_Sent):
    top_logprobs: list[dict[str, float | None]] | None = None


class _Logprob(_Sent):
    logprob: float | None


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
    index: int = 0
    token_ids: list[int] | None = None
    text: str | None = None
    delta: _Delta = _Delta()
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    prompt_logprobs: list[dict[str, _Logprob] | None] | None = None

    @property
    def words(self) -> str:
        """Text of a completion, or of a chat."""
        return self.text or self.delta.content or ""


class _Usage(_Sent):
    prompt_tokens: int
    completion_tokens: int


class _Event(_Sent):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


@dataclass
class _Growing:
    """A sequence while its events come in."""

    token_ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    top_logprobs: list[dict[str, float | None]] = field(default_factory=list)

    def take(self, choice: _Choice) -> None:
        self.token_ids += choice.token_ids or ()
        self.text.append(choice.words)
        self.reasoning.append(choice.delta.thought)
        self.finish_reason = choice.finish_reason or self.finish_reason
        if choice.logprobs is not None:
            self.top_logprobs += map(_finite, choice.logprobs.top_logprobs or ())

    def grown(self) -> Sequence:
        text, reasoning = "".join(self.text), "".join(self.reasoning)
        return Sequence(tuple(self.token_ids), text, reasoning, self.finish_reason, tuple(self.top_logprobs))


@dataclass
class _Parsed:
    first_token_ns: int | None = None
    event_ns: list[int] = field(default_factory=list)
    event_tokens: list[int] = field(default_factory=list)
    sequences: dict[int, _Growing] = field(default_factory=dict)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_logprobs: tuple[float | None, ...] | None = None
    error: str | None = None
    done: bool = False

    @property
    def has_ids(self) -> bool:
        return any(s.token_ids for s in self.sequences.values())


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
    is_whole = received.chunks and received.chunks[0][1].lstrip().startswith(b"{")
    parsed = _parse_whole(received) if is_whole else _parse(received.chunks)
    error = received.error or parsed.error or (None if parsed.done else "the stream ended without [DONE]")
    return Answer(
        begin,
        sent,
        end,
        status,
        first_token_ns=parsed.first_token_ns,
        event_ns=tuple(parsed.event_ns),
        event_tokens=tuple(parsed.event_tokens),
        sequences=tuple(s.grown() for _, s in sorted(parsed.sequences.items())),
        prompt_tokens=parsed.prompt_tokens,
        completion_tokens=parsed.completion_tokens,
        prompt_logprobs=parsed.prompt_logprobs,
        error=error,
    )


def _parse(chunks: Iterable[tuple[int, bytes]]) -> _Parsed:
    parsed = _Parsed()
    for time_ns, data in split_events(chunks):
        if data == DONE:
            parsed.done = True
            continue
        _take_data(parsed, time_ns, data)
    return parsed


def _parse_whole(received: Received) -> _Parsed:
    """A response in one piece: all its tokens came with its last byte."""
    parsed = _Parsed(done=True)
    if received.error is None:  # half a body is no JSON, and the error says already what broke
        _take_data(parsed, received.chunks[-1][0], b"".join(data for _, data in received.chunks))
    return parsed


def _take_data(parsed: _Parsed, time_ns: int, data: bytes) -> None:
    try:
        _take_event(parsed, time_ns, _Event.model_validate_json(data))
    except ValidationError as e:
        fault = e.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        excerpt = data[:200].decode("utf-8", "replace")
        parsed.error = parsed.error or f"not a completion event ({where}: {fault['msg']}): {excerpt}"


def _take_event(parsed: _Parsed, time_ns: int, event: _Event) -> None:
    if event.error is not None:
        parsed.error = f"error event: {json.dumps(event.error)[:500]}"
        return
    tokens = 0
    bears_token = False
    for choice in event.choices:
        tokens += len(choice.token_ids or ())
        parsed.sequences.setdefault(choice.index, _Growing()).take(choice)
        if choice.prompt_logprobs is not None:
            parsed.prompt_logprobs = tuple(map(_of_prompt_token, choice.prompt_logprobs[1:]))
        bears_token = bears_token or bool(choice.words or choice.delta.thought or choice.delta.tool_calls)
    if event.usage is not None:
        # Cumulative: the last one counts. Servers without return_token_ids still tell tokens per event.
        before = parsed.completion_tokens or 0
        parsed.prompt_tokens = event.usage.prompt_tokens
        parsed.completion_tokens = event.usage.completion_tokens
        tokens = tokens if parsed.has_ids else parsed.completion_tokens - before
    if parsed.first_token_ns is None and (bears_token or tokens > 0):
        parsed.first_token_ns = time_ns
    if tokens > 0:
        parsed.event_ns.append(time_ns)
        parsed.event_tokens.append(tokens)


def _finite(logprobs: dict[str, float | None]) -> dict[str, float | None]:
    """A NaN, which JSON has not, as the None that vLLM itself writes in a stream."""
    return {token: value if value is not None and math.isfinite(value) else None for token, value in logprobs.items()}


def _of_prompt_token(logprobs: dict[str, _Logprob] | None) -> float | None:
    """Logprob of the token itself, which vLLM writes first, before the best ones."""
    value = next(iter(logprobs.values())).logprob if logprobs else None
    return value if value is not None and math.isfinite(value) else None
