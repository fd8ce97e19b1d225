"""Streams that a real vLLM 0.32.0 sent, byte for byte, and torn at every place."""

from __future__ import annotations

import pytest

from harness.client.completions import Answer, understood
from harness.client.transport import Received
from harness.observe import prometheus
from tests.observe.shared_logs import LOGS, needs_logs

pytestmark = needs_logs


def read(name: str, piece: int | None = None) -> Answer:
    """What the client makes of a recorded stream that came in pieces of so many bytes."""
    data = (LOGS / "own" / name).read_bytes()
    size = piece or len(data)
    chunks = tuple((n, data[n : n + size]) for n in range(0, len(data), size))
    return understood(Received(0, 0, len(data), 200, chunks))


@pytest.mark.parametrize(
    ("name", "prompt_tokens", "completion_tokens", "events"),
    [("stream_mtp.txt", 5, 12, 12), ("cyc_stream.txt", 1, 30, 19), ("chat_stream.txt", 20, 6, 6)],
)
def test_a_real_stream_is_counted(name: str, prompt_tokens: int, completion_tokens: int, events: int) -> None:
    answer = read(name)
    assert (answer.error, answer.finish_reason) == (None, "length")
    assert (answer.prompt_tokens, answer.completion_tokens) == (prompt_tokens, completion_tokens)
    assert len(answer.token_ids) == sum(answer.event_tokens) == completion_tokens
    assert len(answer.event_ns) == events


def test_drafts_come_as_one_token_or_two() -> None:
    # The server's own account of this stream: 18 steps, of which 12 were accepted.
    answer = read("cyc_stream.txt")
    assert answer.event_tokens.count(1) + answer.event_tokens.count(2) == 19
    assert sum(answer.event_tokens[1:]) == 29


def test_the_role_of_a_real_chat_is_no_token() -> None:
    data = (LOGS / "own" / "chat_stream.txt").read_bytes()
    first_end = data.index(b"\n\n") + 2
    second_end = data.index(b"\n\n", first_end) + 2
    chunks = ((10, data[:first_end]), (20, data[first_end:second_end]), (30, data[second_end:]))
    answer = understood(Received(0, 0, 40, 200, chunks))
    assert answer.first_token_ns == 20
    assert answer.text == "\rt\rt\rt"


@pytest.mark.parametrize("name", ["stream_mtp.txt", "cyc_stream.txt", "chat_stream.txt"])
@pytest.mark.parametrize("piece", [1, 7, 4096])
def test_a_real_stream_says_the_same_however_it_is_torn(name: str, piece: int) -> None:
    whole, torn = read(name), read(name, piece)
    assert (torn.token_ids, torn.text, torn.event_tokens) == (whole.token_ids, whole.text, whole.event_tokens)


def test_queue_and_service_time_are_in_a_real_scrape() -> None:
    scrape = prometheus.parse((LOGS / "own" / "metrics_v0.32.0_cpu_mtp.txt").read_text("utf-8"))
    assert scrape.seconds["queue"] == pytest.approx(0.0004902900000161026)
    assert scrape.seconds["service"] > 0
    assert (scrape.running, scrape.waiting) == (0, 0)
