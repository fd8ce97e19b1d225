"""Several streams side by side: achieved concurrency, sequence-steps, queue apart from service."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from harness.judge.case import read_case
from harness.judge.loads import delivered, in_flight, load_pass, phase_s, server_peak, tokens_per_sequence_step
from harness.judge.rows.health import client_cores
from harness.judge.window import BURST_NS, WindowEvidence
from harness.observe.prometheus import Delta
from harness.records import RequestRecord, Window
from harness.records.client import ClientLoad, Gauge
from harness.words import Arm, ExitCode, Step, Word

from .bundles import Session
from .test_rates import MS, request
from .test_rates import window as one_stream

STREAMS = {"course.contexts": [{"prompt_tokens": 48, "prefill_passes": 1, "decode_passes": 2, "streams": [1, 4]}]}


def shifted(one: RequestRecord, by_ms: int) -> RequestRecord:
    events = tuple(t + by_ms * MS for t in one.event_ns)
    return one.model_copy(update={"begin_ns": by_ms * MS, "end_ns": events[-1], "event_ns": events})


def window(*requests: RequestRecord, draft_tokens: int = 0, drafts: int = 0, accepted: int = 0) -> WindowEvidence:
    found = one_stream(*requests, draft_tokens=draft_tokens, drafts=drafts, accepted=accepted)
    return WindowEvidence(
        found.window.model_copy(update={"streams": 2}), found.requests, found.delta, found.draft_tokens
    )


ONE = request({100: 1, 200: 2, 300: 2})


# --- concurrency --------------------------------------------------------------------------------------


def test_requests_in_flight_are_those_between_begin_and_end() -> None:
    found = in_flight([shifted(ONE, 0), shifted(ONE, 150), shifted(ONE, 300)])
    assert found is not None
    assert found.peak == 2, "the third begins when the first has ended"
    assert found.mean == pytest.approx(900 / 600)


def test_of_no_request_nothing_is_in_flight() -> None:
    assert in_flight([]) is None


def test_the_servers_peak_is_that_of_its_samples() -> None:
    gauges = tuple(Gauge(mono_ns=n, running=r, waiting=0) for n, r in enumerate((1, 4, 3)))
    found = window(ONE)
    sampled = found.window.model_copy(update={"gauges": gauges})
    assert server_peak(WindowEvidence(sampled, found.requests, found.delta, 0)) == 4
    assert server_peak(found) is None


# --- rates --------------------------------------------------------------------------------------------


def test_sequence_steps_and_tokens_share_a_span_from_the_first_token_to_the_last() -> None:
    both = [shifted(ONE, 0), shifted(ONE, 100)]
    found = load_pass(window(*both, draft_tokens=1, drafts=4, accepted=4))
    assert found is not None
    assert found.tokens_per_s == pytest.approx(8 / 0.3)
    assert found.steps_per_s == pytest.approx(4 / 0.3)
    assert found.tokens_per_step == pytest.approx(2.0)


def test_without_speculation_every_delivered_token_is_a_sequence_step() -> None:
    found = load_pass(window(shifted(request({100: 1, 200: 1}), 0), shifted(request({100: 1, 200: 1}), 10)))
    assert found is not None
    assert found.tokens_per_s == found.steps_per_s == pytest.approx(2 / 0.11)


def test_tokens_of_the_first_events_are_not_delivered_by_steps() -> None:
    assert delivered([request({100: 3, 200: 1}), request({100: 2, 200: 2})]) == 3


def test_a_stalled_client_has_counts_and_no_rates() -> None:
    found = window(ONE, shifted(ONE, 10), draft_tokens=1, drafts=4, accepted=4)
    busy = found.window.model_copy(
        update={"client": ClientLoad(cpu_ns=found.window.end_ns, lag_p99_ns=0, lag_samples=9)}
    )
    stalled = WindowEvidence(busy, found.requests, found.delta, 1)
    assert load_pass(stalled) is None
    assert tokens_per_sequence_step(stalled) == pytest.approx(2.0)


def test_queue_and_service_are_per_request_and_unknown_without_a_histogram() -> None:
    found = window(ONE, shifted(ONE, 10))
    assert found.delta is not None
    timed = Delta(found.delta.counts, reset=False, seconds={"queue": 0.5, "service": 3.0})
    evidence = WindowEvidence(found.window, found.requests, timed, 0)
    assert (phase_s(evidence, "queue"), phase_s(evidence, "service")) == (0.25, 1.5)
    assert phase_s(found, "queue") is None


# --- rows ---------------------------------------------------------------------------------------------


def test_one_stream_by_default_has_no_rows_of_several(tmp_path: Path) -> None:
    assert not [r for r in Session(tmp_path).judge().verdict.rows if "streams" in r.name]


def test_rows_of_four_streams(tmp_path: Path) -> None:
    judged = Session(tmp_path, STREAMS).judge()
    achieved = judged.row("concurrency, 4 streams")
    assert achieved.word is Word.PASS
    assert re.fullmatch(r"client 4 / 4, mean (3\.\d|4\.0) / (3\.\d|4\.0); server 4 / 4", achieved.control or "")
    steps, tokens = judged.row("decode steps, 4 streams"), judged.row("decode, 4 streams")
    assert (steps.unit, tokens.unit) == ("sequence-steps/s", "tok/s")
    per_step = judged.row("tokens per step, 4 streams")
    assert float((tokens.control or "").replace(",", "")) == pytest.approx(
        float((steps.control or "").replace(",", "")) * float(per_step.control or ""), rel=1e-3
    )
    assert (judged.row("queue time, 4 streams").control, judged.row("service time, 4 streams").control) == (
        "0.250",
        "1.500",
    )
    assert judged.row("known answers").word is Word.PASS
    assert judged.verdict.exit_code == ExitCode.PASS


def test_passes_of_several_streams_are_none_of_one(tmp_path: Path) -> None:
    several = Session(tmp_path / "several", STREAMS).judge()
    alone = {"course.contexts": [{"prompt_tokens": 48, "prefill_passes": 1, "decode_passes": 2}]}
    one = Session(tmp_path / "one", alone).judge()
    for name in ("decode steps", "decode", "accepted / drafted, decode"):
        assert several.row(name).control == one.row(name).control


def test_a_launch_is_one_value_however_many_passes_it_has(tmp_path: Path) -> None:
    overrides = STREAMS | {"plan.pairs": 4, "plan.caches": ["cold", "warm"]}
    judged = Session(tmp_path, overrides).candidate(speed=0.8).judge()
    row = judged.row("decode steps, 4 streams", cache="warm")
    assert row.word is Word.FAIL
    assert "4 pairs" in row.reason


def test_a_client_that_sends_one_after_the_other_voids_the_concurrency(tmp_path: Path) -> None:
    judged = Session(tmp_path, STREAMS).candidate(one_by_one=True).judge()
    row = judged.row("concurrency, 4 streams")
    assert (row.word, row.candidate) == (Word.VOID, "client 1 / 1, mean 1.0 / 1.0; server 4 / 4")
    assert judged.verdict.exit_code == ExitCode.VOID


def test_a_server_that_runs_fewer_is_a_warning(tmp_path: Path) -> None:
    row = Session(tmp_path, STREAMS).candidate(slots=2).judge().row("concurrency, 4 streams")
    assert row.word is Word.WARN
    assert (row.candidate or "").endswith("; server 2 / 2")
    assert "at most 2 at a time" in row.reason


def test_one_request_of_many_that_is_short_fails_the_cell_and_is_named(tmp_path: Path) -> None:
    judged = Session(tmp_path, STREAMS).candidate(short=("decode/48/2",)).judge()
    row = judged.row("requests served in full")
    assert row.word is Word.FAIL
    assert "decode/48/2" in row.reason
    assert "got 29" in row.reason
    assert judged.row("decode steps, 4 streams").candidate is None


# --- the client's own state ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ({"client_cpu_share": 0.6, "client_lag_ms": None}, "the client used 0.600 cores, more than 0.5"),
        ({"client_cpu_share": 0.5003, "client_lag_ms": None}, "the client used 0.501 cores, more than 0.5"),
        ({"client_lag_ms": 5.5}, "the client's threads woke 5.50 ms late (p99), more than 5"),
        ({"client_lag_ms": 5.001}, "the client's threads woke 5.01 ms late (p99), more than 5"),
    ],
    ids=["cpu", "cpu, a little", "lag", "lag, a little"],
)
def test_a_busy_client_voids_every_speed_and_no_count(tmp_path: Path, does: Any, told: str) -> None:
    judged = Session(tmp_path).candidate(**does).judge()
    row = judged.row("client kept up")
    assert row.word is Word.WARN
    assert told in row.reason
    for name in ("first prompt", "prefill", "decode", "decode steps", "inter-chunk gap p99"):
        assert judged.row(name, context_tokens=48).candidate is None
    assert judged.row("tokens per step", context_tokens=48).candidate is not None
    assert judged.row("counts agree").word is Word.PASS


@pytest.mark.parametrize(
    ("long_ms", "lag_ns", "stalled"),
    [(99, 1, False), (99, 5_000_001, True), (99, None, True), (100, 1, True)],
    ids=["short", "short-and-late", "short-and-unwatched", "long"],
)
def test_a_short_window_is_judged_by_lateness_and_not_by_what_a_request_costs_at_any_rate(
    long_ms: int, lag_ns: int | None, stalled: bool
) -> None:
    """On an H200 a 2K prefill took 16 ms, 8 of which the client had been busy and never late: its rate was left out."""
    busy = ClientLoad(cpu_ns=long_ms * MS * 6 // 10, lag_p99_ns=lag_ns, lag_samples=3)
    short = window(ONE).window.model_copy(update={"begin_ns": 0, "end_ns": long_ms * MS, "client": busy})
    assert (WindowEvidence(short, (ONE,), None, 0).stalled is not None) is stalled


@pytest.mark.parametrize(("close", "burst"), [(8, False), (9, True)])
def test_events_are_a_burst_when_more_than_half_of_them_come_at_once(close: int, burst: bool) -> None:
    gaps = [BURST_NS - 1] * close + [BURST_NS] * (16 - close)
    events = tuple(accumulate(gaps, initial=100 * MS))
    one = ONE.model_copy(update={"event_ns": events, "event_tokens": (1,) * len(events)})
    stalled = WindowEvidence(window(one).window, (one,), None, 0).stalled
    assert (stalled is not None and f"{close} of 16 gaps" in stalled) is burst


@pytest.mark.parametrize(
    "does", [{"client_cpu_share": 0.5, "client_lag_ms": None}, {"client_lag_ms": 5.0}], ids=["cpu", "lag"]
)
def test_at_the_bar_a_client_has_kept_up(tmp_path: Path, does: Any) -> None:
    assert Session(tmp_path).candidate(**does).judge().row("client kept up").word is Word.PASS


def test_what_the_client_used_in_the_windows_of_a_speed_is_told_per_launch(tmp_path: Path) -> None:
    bundle = Session(tmp_path).control(client_cpu_share=0.06).candidate(client_cpu_share=0.02).build()
    shares = {x.record.launch.arm: client_cores(x) for x in read_case(bundle).launches.values() if x.record}
    assert shares == {Arm.CONTROL: pytest.approx(0.06, abs=1e-3), Arm.CANDIDATE: pytest.approx(0.02, abs=1e-3)}


def test_a_window_of_before_the_client_was_watched_is_judged_by_its_events() -> None:
    record = Window.model_validate(
        {
            "window": "decode/48/0",
            "step": Step.DECODE,
            "context_tokens": 48,
            "pass_number": 0,
            "begin_ns": 0,
            "end_ns": 1,
            "scrape_before": None,
            "scrape_after": None,
        }
    )
    assert WindowEvidence(record, (ONE,), None, 0).stalled is None


@pytest.mark.parametrize(("speed", "expected"), [(1.0, Word.PASS), (0.9, Word.FAIL)])
def test_rates_of_several_streams_are_primary_in_a_session_that_has_them(
    tmp_path: Path, speed: float, expected: Word
) -> None:
    session = Session(tmp_path, STREAMS | {"plan.pairs": 4, "plan.caches": ["warm"]}).candidate(speed=speed)
    assert "mtp1 decode steps, 4 streams 48" in session.plan.primary_metrics
    judged = session.judge()
    row = judged.row("decode steps, 4 streams", cache="warm")
    assert row.word is expected
    assert row.tested is not None
    assert row.tested.primary
    assert judged.row("decode steps, 4 streams", cache="cold").word is Word.NOT_TESTED
