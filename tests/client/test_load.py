"""How busy the client was: CPU of its process, lateness of its threads."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from harness.client.gauges import GaugeSampler
from harness.client.load import LoadProbe, percentile, uncollected
from tests.client.raw_server import raw_server, respond


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_cpu_is_that_of_the_process_while_the_probe_was_open() -> None:
    with LoadProbe() as probe:
        spin(0.05)
    spin(0.05)
    assert 0.05e9 <= probe.cpu_ns < 0.1e9


def test_lateness_is_measured_again_and_again() -> None:
    with LoadProbe(0.001) as probe:
        enough = threading.Event()
        while len(probe.lags_ns) < 5:
            enough.wait(0.001)
    assert all(lag >= 0 for lag in probe.lags_ns)


def test_a_window_shorter_than_a_period_has_no_lateness() -> None:
    with LoadProbe(60) as probe:
        pass
    assert probe.lags_ns == ()
    assert percentile(probe.lags_ns, 0.99) is None


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([5], 0.5, 5),
        ([3, 1, 2], 0.5, 2),
        (list(range(1, 101)), 0.99, 99),
        (list(range(1, 51)), 0.99, 50),
        ([1, 2], 0.5, 1),
    ],
)
def test_percentiles_are_values_that_were_seen(values: list[int], share: float, expected: int) -> None:
    assert percentile(values, share) == expected


def test_gauges_are_sampled_and_a_failed_scrape_is_a_gap() -> None:
    answers = [(200, b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n"), (500, b""), (200, b"x{")]
    last = (200, b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")
    done = threading.Event()

    def answer(connection: object) -> None:
        status, body = answers.pop(0) if answers else last
        respond(connection, status, body)  # type: ignore[arg-type]
        if not answers:
            done.set()

    with raw_server(answer) as server, GaugeSampler(server.url, 0.005) as gauges:
        assert done.wait(10)
        while len(gauges.samples) < 2:
            time.sleep(0.005)
    assert [(r, w) for _, r, w in gauges.samples[:2]] == [(3.0, 1.0), (0.0, 0.0)]
    assert gauges.samples[0][0] < gauges.samples[1][0]


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_collected_while_streams_run_and_afterwards_all_is_as_before(*, enabled: bool) -> None:
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
        with pytest.raises(KeyError), uncollected():
            raise KeyError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()
