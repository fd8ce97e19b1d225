"""Completions from servers that are no vLLM, or a broken one: raw bytes over a socket."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import accumulate
from typing import Any

import pytest
import requests
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.client.asks import Ask
from harness.client.completions import Answer, complete, understood
from harness.client.transport import Received, open_session
from tests.client.raw_server import begin_stream, raw_server, read_request, respond, send_chunk, stream

DONE = b"[DONE]"


def ask(url: str, *, deadline_s: float = 5, prompt: list[int] | None = None) -> Answer:
    with requests.Session() as session:
        session.trust_env = False
        return complete(session, url, Ask("tiny", prompt or [1, 2], 4, "salt"), deadline_s=deadline_s)


def answer_of(*events: dict[str, Any] | bytes) -> Answer:
    """What becomes of a stream of these events."""
    raw = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    with raw_server(lambda connection: stream(connection, raw)) as server:
        return ask(server.url)


def choice(text: str = "", **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": None, **more}]}


def usage(completion: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 2, "completion_tokens": completion, "total_tokens": 2 + completion}}


# --- counting -------------------------------------------------------------------------------------------


def test_without_ids_tokens_are_counted_by_the_usage_of_each_event() -> None:
    answer = answer_of(
        choice("") | usage(0),
        choice("a") | usage(1),
        choice("bc") | usage(3),
        choice("") | usage(3),
        choice("d", finish_reason="length") | usage(4),
        {"choices": []} | usage(4),
        DONE,
    )
    assert answer.error is None
    assert answer.event_tokens == (1, 2, 1)
    assert (answer.text, answer.finish_reason, answer.token_ids) == ("abcd", "length", ())
    assert (answer.prompt_tokens, answer.completion_tokens) == (2, 4)


def test_usage_at_the_end_alone_is_one_event_and_no_more_is_claimed() -> None:
    answer = answer_of(choice("a"), choice("bc"), {"choices": []} | usage(3), DONE)
    assert answer.event_tokens == (3,)
    assert answer.completion_tokens == 3


def test_ids_with_usage_at_the_end_are_not_counted_twice() -> None:
    answer = answer_of(choice("a", token_ids=[7]), choice("bc", token_ids=[8, 9]), {"choices": []} | usage(3), DONE)
    assert answer.event_tokens == (1, 2)
    assert answer.token_ids == (7, 8, 9)


def test_with_neither_ids_nor_usage_nothing_is_counted() -> None:
    answer = answer_of(choice("a"), choice("bc"), DONE)
    assert (answer.event_tokens, answer.completion_tokens, answer.text) == ((), None, "abc")


def test_the_first_token_is_not_an_empty_chunk() -> None:
    def answer(connection: socket.socket) -> None:
        begin_stream(connection)
        send_chunk(connection, b'data: {"choices":[{"text":"","token_ids":[]}]}\n\n')
        send_chunk(connection, b": keep-alive\n\n")
        time.sleep(0.1)
        send_chunk(connection, b'data: {"choices":[{"text":"a","token_ids":[7]}]}\n\ndata: [DONE]\n\n')
        send_chunk(connection, b"")

    with raw_server(answer) as server:
        received = ask(server.url)
    assert received.sent_ns is not None
    assert len(received.event_ns) == 1
    assert received.event_ns[0] - received.sent_ns >= 0.09e9


@pytest.mark.parametrize(
    "first",
    [
        choice("a"),
        choice("", token_ids=[7]),
        choice("") | usage(1),
        choice(delta={"content": "a"}),
        choice(delta={"reasoning": "a"}),
        choice(delta={"reasoning_content": "a"}),
        choice(delta={"tool_calls": [{"index": 0}]}),
    ],
    ids=["text", "an id", "a count", "content", "reasoning", "reasoning_content", "a tool call"],
)
def test_the_first_token_is_one_of_any_kind(first: dict[str, Any]) -> None:
    chunks = [
        (10, choice(delta={"role": "assistant", "content": ""}) | usage(0)),
        (20, choice("", token_ids=[]) | usage(0)),
        (30, first),
        (40, choice("b") | usage(2)),
    ]
    raw = ((time_ns, b"data: %b\n\n" % json.dumps(event).encode()) for time_ns, event in chunks)
    answer = understood(Received(0, 1, 50, 200, tuple(raw)))
    assert answer.first_token_ns == 30


def test_no_token_has_no_first_one() -> None:
    assert answer_of(choice(delta={"role": "assistant", "content": ""}) | usage(0), DONE).first_token_ns is None


def test_reasoning_is_kept_apart_from_the_text() -> None:
    both = {"reasoning": "so", "reasoning_content": "so"}
    answer = answer_of(
        choice(delta={"reasoning": "hm "}), choice(delta=both), choice(delta={"content": "yes"}), usage(3), DONE
    )
    assert (answer.reasoning, answer.text, answer.completion_tokens) == ("hm so", "yes", 3)


@given(st.lists(st.lists(st.integers(0, 200_000), max_size=4), max_size=8))
@settings(max_examples=25)
def test_events_and_ids_always_agree(chunks: list[list[int]]) -> None:
    counts = list(accumulate(map(len, chunks)))
    events = [choice("x", token_ids=ids) | usage(n) for ids, n in zip(chunks, counts, strict=True)]
    answer = answer_of(*events, DONE)
    assert answer.token_ids == tuple(token for ids in chunks for token in ids)
    assert answer.event_tokens == tuple(len(ids) for ids in chunks if ids)
    assert answer.completion_tokens == (counts[-1] if counts else None)


# --- what is no answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        b"{",
        b"null",
        b"7",
        b"[]",
        b'"error"',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"choices": null}',
        b'{"choices": [7]}',
        b'{"choices": [{"text": 7}]}',
        b'{"choices": [{"text": "\\ud800"}]}',
        b'{"choices": [{"token_ids": "abc"}]}',
        b'{"choices": [{"token_ids": [1.5]}]}',
        b'{"choices": [{"token_ids": [null]}]}',
        b'{"choices": [{"logprobs": {"top_logprobs": [null]}}]}',
        b'{"choices": [{"logprobs": {"top_logprobs": [{"a": "b"}]}}]}',
        b'{"usage": {}}',
        b'{"usage": {"prompt_tokens": "2", "completion_tokens": 1}}',
        b'{"usage": {"prompt_tokens": 2, "completion_tokens": NaN}}',
    ],
    ids=lambda event: repr(event[:40]),
)
def test_an_event_that_is_none_is_an_error_beside_what_came(event: bytes) -> None:
    answer = answer_of(choice("a", token_ids=[7]) | usage(1), event, choice("b", token_ids=[8]) | usage(2), DONE)
    assert answer.error is not None
    assert answer.error.startswith("not a completion event (")
    assert len(answer.error) < 500
    assert (answer.token_ids, answer.text, answer.completion_tokens) == ((7, 8), "ab", 2)


FIELDS = [
    "choices",
    "usage",
    "error",
    "text",
    "token_ids",
    "logprobs",
    "top_logprobs",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=30), max_size=4))
@example([b'{"choices": [{}]}'])
@settings(max_examples=60)
def test_no_events_raise(events: list[bytes]) -> None:
    answer = answer_of(*events, DONE)
    assert all(type(token) is int for token in answer.token_ids)
    assert type(answer.text) is str
    assert type(answer.completion_tokens) in (int, type(None))
    json.dumps(asdict(answer), allow_nan=False).encode()


def test_a_stream_without_its_end_is_an_error() -> None:
    assert answer_of(choice("a", token_ids=[7])).error == "the stream ended without [DONE]"


@pytest.mark.parametrize("answer", [b"", b"\x00" * 50, b"HTTP/1.1\r\n\r\n", b"SSH-2.0-OpenSSH_9.9\r\n"], ids=repr)
def test_what_is_no_http_is_an_error(answer: bytes) -> None:
    with raw_server(lambda connection: connection.sendall(answer)) as server:
        received = ask(server.url)
    assert received.error is not None
    assert received.token_ids == ()


def test_a_page_of_somebody_else_is_an_error_with_an_excerpt() -> None:
    with raw_server(lambda connection: respond(connection, 404, b"<html>" + b"x" * 10_000)) as server:
        received = ask(server.url)
    assert received.status == 404
    assert received.error is not None
    assert received.error.startswith("HTTP 404: <html>xxx")
    assert len(received.error) < 600


def test_a_redirect_is_not_followed() -> None:
    with (
        raw_server(lambda connection: respond(connection, 200, b"")) as other,
        raw_server(lambda connection: respond(connection, 307, b"", f"Location: {other.url}/v1/completions")) as server,
    ):
        received = ask(server.url)
        assert (received.status, received.error) == (307, "HTTP 307: ")
        assert other.bodies == []


# --- deadlines ------------------------------------------------------------------------------------------


def headers_then_nothing(connection: socket.socket) -> None:
    time.sleep(0.3)
    begin_stream(connection)
    connection.recv(1)


def trickle(connection: socket.socket, *, begin: bytes, again: bytes) -> None:
    connection.sendall(begin)
    for _ in range(500):
        connection.sendall(again)
        time.sleep(0.02)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"text":"a","token_ids":[7]}]}\n\n'


@pytest.mark.parametrize(
    "answer",
    [
        lambda connection: connection.recv(1),
        headers_then_nothing,
        lambda connection: trickle(connection, begin=CHUNKED, again=b"1\r\n:\r\n"),
        lambda connection: trickle(connection, begin=CHUNKED, again=b"%x\r\n%b\r\n" % (len(TOKEN), TOKEN)),
        lambda connection: trickle(connection, begin=CHUNKED + b"ffffff\r\n", again=b"x"),
        lambda connection: trickle(connection, begin=b"HTTP/1.1 200 OK\r\n\r\n", again=b"x"),
        lambda connection: trickle(connection, begin=b"HTTP/1.1 500 x\r\nContent-Length: 9999\r\n\r\n", again=b"x"),
        lambda connection: trickle(connection, begin=b"HTTP/1.1 200 OK\r\nX-Endless: ", again=b"x"),
        lambda connection: trickle(connection, begin=b"HTTP", again=b"\r"),
    ],
    ids=[
        "nothing",
        "headers",
        "bytes",
        "tokens",
        "one endless chunk",
        "no chunks",
        "an endless error",
        "an endless header",
        "an endless status line",
    ],
)
def test_no_server_outlives_the_deadline(answer: Callable[[socket.socket], object]) -> None:
    with raw_server(answer) as server:
        begin = time.monotonic()
        received = ask(server.url, deadline_s=0.5)
        assert time.monotonic() - begin < 10
    assert received.error == "not finished within 0.5 s"
    assert received.begin_ns < received.end_ns


def test_a_server_that_never_reads_the_body_does_not_outlive_the_deadline() -> None:
    with raw_server(lambda connection: connection.recv(1), read_after_s=1.5, receive_bytes=4096) as server:
        received = ask(server.url, deadline_s=0.5, prompt=[123_456] * 1_000_000)
    assert received.error == "not finished within 0.5 s"
    assert (received.status, received.sent_ns) == (None, None)


def test_a_connection_that_is_kept_alive_is_watched_again() -> None:
    def answer(connection: socket.socket) -> None:
        body = b"data: [DONE]\n\n"
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        read_request(connection)
        trickle(connection, begin=b"HTTP/1.1 200 OK\r\nX-Endless: ", again=b"x")

    with raw_server(answer) as server, open_session() as session:
        first, second = (
            complete(session, server.url, Ask("tiny", [1, 2], 4, "salt"), deadline_s=0.5) for _ in range(2)
        )
    assert first.error is None
    assert second.error == "not finished within 0.5 s"


def test_a_reset_in_mid_stream_keeps_what_had_come() -> None:
    def answer(connection: socket.socket) -> None:
        begin_stream(connection)
        send_chunk(connection, TOKEN)
        time.sleep(0.1)  # so that the reset does not overtake the token
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with raw_server(answer) as server:
        received = ask(server.url)
    assert received.error is not None
    assert "reset" in received.error.lower()
    assert received.token_ids == (7,)


def test_what_a_trickling_server_sent_by_then_is_kept() -> None:
    with raw_server(lambda c: trickle(c, begin=CHUNKED, again=b"%x\r\n%b\r\n" % (len(TOKEN), TOKEN))) as server:
        received = ask(server.url, deadline_s=0.3)
    assert 1 <= len(received.token_ids) == len(received.event_ns)
    assert list(received.event_ns) == sorted(received.event_ns)


def test_a_body_counts_as_sent_when_the_kernel_has_taken_the_last_of_it() -> None:
    taken: list[int] = []

    def slow(connection: socket.socket) -> None:
        taken.append(time.monotonic_ns())
        stream(connection, [b'{"choices":[{"text":"a","token_ids":[7]}]}', DONE])

    with raw_server(slow, read_after_s=0.2, receive_bytes=4096) as server:
        begin = time.monotonic_ns()
        received = ask(server.url, prompt=[123_456] * 500_000)
    assert received.error is None
    assert received.sent_ns is not None
    assert received.sent_ns - begin >= 0.2e9
    assert received.sent_ns <= received.event_ns[0]
    assert taken[0] <= received.event_ns[0]
