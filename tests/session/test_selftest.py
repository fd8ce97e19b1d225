"""The client's self-test: counts are asserted exactly; times only where no busy machine can spoil them."""

from __future__ import annotations

import psutil
import pytest

from harness.client.completions import Answer
from harness.client.transport import Received
from harness.config.limits import Client
from harness.judge.rows.client import miscounts
from harness.session import selftest
from harness.session.selftest import Stream, self_test

MS = 1_000_000


def stream(events_ms: list[int], stamps_ms: list[tuple[int, int]], *, sent_ms: int = 10) -> Stream:
    times = tuple(t * MS for t in events_ms)
    answer = Answer(0, sent_ms * MS, times[-1], 200, first_token_ns=times[0], event_ns=times)
    return Stream(Received(0, sent_ms * MS, times[-1], 200), answer, tuple((a * MS, b * MS) for a, b in stamps_ms))


def test_every_event_and_token_of_every_stream_is_there() -> None:
    found = self_test(Client(selftest_streams=8, selftest_s=0.3))
    assert found.error is None
    assert miscounts(found) == []
    assert found.events_received == found.events_expected
    assert (found.tokens_received or 0) > (found.events_received or 0) > 8 * 10, "events carry one token or two"
    figures = (found.events_per_s, found.delivery_p50_ms, found.delivery_p99_ms, found.first_token_error_ms)
    assert all(f is not None and f > 0 for f in figures)
    assert found.rate_error_pct is not None


def test_nothing_of_it_is_left_running() -> None:
    before = psutil.Process().children(recursive=True)
    self_test(Client(selftest_streams=1, selftest_s=0.02))
    assert psutil.Process().children(recursive=True) == before


def test_a_server_that_does_not_come_up_is_an_error_and_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "MTP", "no JSON {")
    found = self_test(Client(selftest_streams=1, selftest_s=0.02))
    assert found.error == "SetupFailure: the built-in server did not come up"
    assert (found.events_expected, found.events_received, found.events_per_s, found.ids_exact) == (None,) * 4


def test_delays_and_errors_are_against_the_servers_own_stamps() -> None:
    # Read at 11, sent at 31, 51 and 71; seen at 34, 52 and 75, after a request that was sent at 10.
    found = stream([34, 52, 75], [(11, 31), (11, 51), (11, 71)])
    assert found.delays_ns() == [3 * MS, 1 * MS, 4 * MS]
    assert found.first_token_error_ns() == (34 - 10 - (31 - 11)) * MS
    assert found.rate_error() == pytest.approx(40 / 41 - 1)


def test_without_stamps_there_is_no_error() -> None:
    found = stream([34, 52], [])
    assert (found.first_token_error_ns(), found.rate_error()) == (None, None)
