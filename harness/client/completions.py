"""One streamed completion: serialised first, timed at the socket, understood afterwards."""

from __future__ import annotations

import contextlib
import io
import json
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import requests
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.client.asks import Ask
from harness.client.sse import DONE, split_events


@dataclass(frozen=True)
class Sequence:
    """One of the sequences that a request asked for."""

    token_ids: tuple[int, ...] = ()
    text: str = ""
    finish_reason: str | None = None
    top_logprobs: tuple[dict[str, float | None], ...] = ()


@dataclass(frozen=True)
class Answer:
    """What came back, with times in monotonic ns."""

    begin_ns: int
    sent_ns: int | None
    end_ns: int
    status: int | None
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


class _Watch:
    """Ends a response's stream when the time is up, even in the middle of a chunk that never ends."""

    def __init__(self, deadline_s: float) -> None:
        self._response: requests.Response | None = None
        self._up = threading.Event()
        self._timer = threading.Timer(deadline_s, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def over(self, response: requests.Response) -> None:
        """Watch this response, whose headers are there."""
        self._response = response
        if self._up.is_set():
            self._cut()

    def off(self) -> bool:
        """Stop watching; True when the time was up."""
        self._timer.cancel()
        return self._up.is_set()

    def _cut(self) -> None:
        self._up.set()
        if self._response is not None:
            with contextlib.suppress(OSError, RuntimeError, ValueError):  # it has just ended by itself
                self._response.raw.shutdown()


class _StampedBody(io.BytesIO):
    """A request body that knows when its last byte was read to be sent."""

    sent_ns: int | None = None

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        # Once, with the last bytes: urllib3 reads again at the end, and a client that was descheduled in
        # between would stamp late, which turns into a prefill rate that no engine has.
        if self.sent_ns is None and self.tell() == len(self.getbuffer()):
            self.sent_ns = time.monotonic_ns()
        return data


class _Sent(BaseModel):
    """Part of an event, its types as vLLM documents them: a server under test may send anything."""

    model_config = ConfigDict(strict=True)


class _Logprobs(_Sent):
    top_logprobs: list[dict[str, float | None]] | None = None


class _Logprob(_Sent):
    logprob: float | None


class _Choice(_Sent):
    index: int = 0
    token_ids: list[int] | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    prompt_logprobs: list[dict[str, _Logprob] | None] | None = None


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
    finish_reason: str | None = None
    top_logprobs: list[dict[str, float | None]] = field(default_factory=list)

    def take(self, choice: _Choice) -> None:
        self.token_ids += choice.token_ids or ()
        self.text.append(choice.text or "")
        self.finish_reason = choice.finish_reason or self.finish_reason
        if choice.logprobs is not None:
            self.top_logprobs += map(_finite, choice.logprobs.top_logprobs or ())

    def grown(self) -> Sequence:
        return Sequence(tuple(self.token_ids), "".join(self.text), self.finish_reason, tuple(self.top_logprobs))


@dataclass
class _Parsed:
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


def complete(session: requests.Session, base_url: str, ask: Ask, *, deadline_s: float) -> Answer:
    """Send one request and read its stream to the end.

    Nothing is raised: whatever went wrong is the answer's `error`, beside all that had come by then.

    Args:
        session: one per thread.
        base_url: of the server, without a trailing slash.
        ask: the request.
        deadline_s: the whole request must end within this; a server that trickles for ever does not pass.
    """
    body = _StampedBody(ask.body())
    chunks: list[tuple[int, bytes]] = []
    status: int | None = None
    error: str | None = None
    watch = _Watch(deadline_s)
    begin = time.monotonic_ns()
    try:
        with session.post(
            f"{base_url}/v1/completions",
            data=body,
            headers={"Content-Type": "application/json"},
            stream=True,
            timeout=(min(5.0, deadline_s), deadline_s),
            allow_redirects=False,
        ) as response:
            status = response.status_code
            watch.over(response)
            for chunk in response.iter_content(None):
                chunks.append((time.monotonic_ns(), chunk))  # noqa: PERF401  # a stream that breaks off keeps these
    except requests.RequestException as e:
        error = f"{type(e).__name__}: {e}"
    end = time.monotonic_ns()
    if watch.off():
        error = f"not finished within {deadline_s:g} s"

    if status is not None and status != 200:
        excerpt = b"".join(c for _, c in chunks)[:500].decode("utf-8", "replace")
        return Answer(begin, body.sent_ns, end, status, error=error or f"HTTP {status}: {excerpt}")
    parsed = _parse(chunks) if ask.stream else _parse_whole(chunks, failed=error is not None)
    error = error or parsed.error or (None if parsed.done else "the stream ended without [DONE]")
    return Answer(
        begin,
        body.sent_ns,
        end,
        status,
        event_ns=tuple(parsed.event_ns),
        event_tokens=tuple(parsed.event_tokens),
        sequences=tuple(s.grown() for _, s in sorted(parsed.sequences.items())),
        prompt_tokens=parsed.prompt_tokens,
        completion_tokens=parsed.completion_tokens,
        prompt_logprobs=parsed.prompt_logprobs,
        error=error,
    )


def _parse(chunks: list[tuple[int, bytes]]) -> _Parsed:
    parsed = _Parsed()
    for time_ns, data in split_events(chunks):
        if data == DONE:
            parsed.done = True
            continue
        _take_data(parsed, time_ns, data)
    return parsed


def _parse_whole(chunks: list[tuple[int, bytes]], *, failed: bool) -> _Parsed:
    """A response in one piece: all its tokens came with its last byte."""
    parsed = _Parsed(done=True)
    if chunks and not failed:  # half a body is no JSON, and the error says already what broke
        _take_data(parsed, chunks[-1][0], b"".join(data for _, data in chunks))
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
    for choice in event.choices:
        tokens += len(choice.token_ids or ())
        parsed.sequences.setdefault(choice.index, _Growing()).take(choice)
        if choice.prompt_logprobs is not None:
            parsed.prompt_logprobs = tuple(map(_of_prompt_token, choice.prompt_logprobs[1:]))
    if event.usage is not None:
        # Cumulative: the last one counts. Servers without return_token_ids still tell tokens per event.
        before = parsed.completion_tokens or 0
        parsed.prompt_tokens = event.usage.prompt_tokens
        parsed.completion_tokens = event.usage.completion_tokens
        tokens = tokens if parsed.has_ids else parsed.completion_tokens - before
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
