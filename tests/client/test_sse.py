"""Server-sent events, however the network tore them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.client.sse import split_events

STREAM = b'data: {"a":1}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n'
EVENTS = [b'{"a":1}', b'{"b":2}', b"[DONE]"]

lines = st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b""))
events = st.lists(st.lists(lines, min_size=1, max_size=3), max_size=6)
noise = st.sampled_from([b"", b": ping\n", b":\n\n", b"event: message\n", b"id: 7\n", b"retry: 10\n", b"\n"])


def data_of(*chunks: bytes) -> list[bytes]:
    return [data for _, data in split_events(enumerate(chunks))]


def torn(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(places)]


# --- one stream, one list of events ---------------------------------------------------------------------


@given(events, st.data())
def test_any_tearing_of_any_events_gives_the_same_events(written: list[list[bytes]], data: st.DataObject) -> None:
    end = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    stream = b""
    for event in written:
        stream += data.draw(noise).replace(b"\n", end)
        stream += b"".join(b"data: " + line + end for line in event) + end
    cuts = data.draw(st.lists(st.integers(0, 10_000), max_size=8))
    assert data_of(*torn(stream, cuts)) == [b"\n".join(event) for event in written]


def test_torn_at_every_byte() -> None:
    for end in (b"\n", b"\r\n"):
        stream = STREAM.replace(b"\n", end)
        assert data_of(*(stream[i : i + 1] for i in range(len(stream)))) == EVENTS


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b": comment\n\ndata: a\n\n", [b"a"]),
        (b":\n\n:\n\n\n\ndata: a\n\n", [b"a"]),
        (b"data: a\n: in between\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
        (b"event: x\nid: 1\nretry: 5\n\n", []),
        (b"event: x\ndata: a\n\n", [b"a"]),
        (b"database: a\n\n", []),
        (b"data: a\n\n\n\n\n\n", [b"a"]),
        (b"", []),
    ],
    ids=repr,
)
def test_the_forms_of_an_event(stream: bytes, told: list[bytes]) -> None:
    assert data_of(stream) == told


@pytest.mark.parametrize("end", [b"data: b", b"data: b\n", b"data: b\r\n\r", b"data: b\n:\n"], ids=repr)
def test_an_event_that_no_blank_line_completed_is_not_yielded(end: bytes) -> None:
    assert data_of(b"data: a\n\n" + end) == [b"a"]


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_no_bytes_break_it(chunks: list[bytes]) -> None:
    assert data_of(*chunks) == data_of(b"".join(chunks))


# --- time -----------------------------------------------------------------------------------------------


def test_an_events_time_is_that_of_the_chunk_that_completed_it() -> None:
    chunks = [(10, b"data: a\n"), (20, b"\ndata: b\n\nda"), (30, b"ta: c\n"), (40, b"\r"), (50, b"\n")]
    assert list(split_events(chunks)) == [(20, b"a"), (20, b"b"), (50, b"c")]


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_times_never_fall(cuts: list[int]) -> None:
    times = [time for time, _ in split_events(enumerate(torn(STREAM * 3, cuts)))]
    assert times == sorted(times)
    assert len(times) == 9
