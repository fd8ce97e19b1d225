"""Rates by hand: which tokens over which seconds, and when there is no rate at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.judge.case import read_case
from harness.judge.rates import decode_pass, decode_rate, decode_s, first_token_s, median, prefill_rate, tokens_per_step
from harness.judge.rows import memory, speed, startup
from harness.judge.window import WindowEvidence
from harness.observe.memory import Series
from harness.observe.prometheus import Delta
from harness.records import RequestRecord, Window
from harness.words import Arm, Step

from .asked import asked
from .bundles import Session

MS = 1_000_000


def request(events: dict[int, int], *, prompt_tokens: int = 2048, sent_ns: int | None = 10 * MS) -> RequestRecord:
    """A request by its events: ms -> tokens."""
    return asked(
        prompt_tokens=prompt_tokens,
        tokens=sum(events.values()),
        window="decode/2048/0",
        step=Step.DECODE,
        context_tokens=2048,
        sent_ns=sent_ns,
        event_ns=tuple(ms * MS for ms in events),
        event_tokens=tuple(events.values()),
        end_ns=5_000 * MS,
    )


def window(*requests: RequestRecord, drafts: int = 0, accepted: int = 0, draft_tokens: int = 0) -> WindowEvidence:
    counts = {
        "requests": len(requests),
        "prompt_tokens": sum(r.prompt_tokens for r in requests),
        "generation_tokens": sum(r.asked_tokens for r in requests),
        "prefix_hits": 0,
        "preemptions": 0,
        "drafts": drafts,
        "accepted": accepted,
    }
    record = Window(
        window="decode/2048/0",
        step=Step.DECODE,
        context_tokens=2048,
        pass_number=0,
        begin_ns=0,
        end_ns=6_000 * MS,
        scrape_before="001.prom",
        scrape_after="002.prom",
    )
    return WindowEvidence(record, requests, Delta(counts, reset=False), draft_tokens)


# --- prefill -----------------------------------------------------------------------------------------


def test_prefill_is_the_prompt_over_the_time_from_sent_to_the_first_token() -> None:
    assert prefill_rate(request({1034: 1, 2000: 1})) == pytest.approx(2048 / 1.024)
    assert first_token_s(request({1034: 1})) == pytest.approx(1.024)


@pytest.mark.parametrize(("events", "sent_ns"), [({}, 10 * MS), ({20: 1}, None), ({10: 1}, 10 * MS), ({9: 1}, 10 * MS)])
def test_no_prefill_rate_without_a_token_a_time_or_any_time_between(
    events: dict[int, int], sent_ns: int | None
) -> None:
    assert prefill_rate(request(events, sent_ns=sent_ns)) is None


@pytest.mark.parametrize(("events", "sent_ns"), [({}, 10 * MS), ({20: 1}, None)])
def test_no_first_token_without_a_token_or_a_time(events: dict[int, int], sent_ns: int | None) -> None:
    assert first_token_s(request(events, sent_ns=sent_ns)) is None


# --- decode ------------------------------------------------------------------------------------------


def test_decode_counts_tokens_after_the_first_event_and_not_events() -> None:
    # Four events, seven tokens: 1 | 2 2 2 over 300 ms.
    one = request({100: 1, 200: 2, 300: 2, 400: 2})
    assert decode_s(one) == pytest.approx(0.3)
    assert decode_rate(one) == pytest.approx(6 / 0.3)


def test_tokens_of_the_first_event_belong_to_the_prefill() -> None:
    assert decode_rate(request({100: 5, 200: 1})) == pytest.approx(1 / 0.1)


@pytest.mark.parametrize("events", [{}, {100: 8}])
def test_a_stream_of_one_event_has_no_decode_rate(events: dict[int, int]) -> None:
    assert decode_s(request(events)) is None
    assert decode_rate(request(events)) is None
    assert decode_pass(window(request(events))) is None


def test_two_events_at_the_same_time_have_no_rate() -> None:
    at_once = request({100: 1, 101: 1}).model_copy(update={"event_ns": (100 * MS, 100 * MS)})
    assert decode_rate(at_once) is None


def test_without_speculation_every_token_after_the_first_is_a_step() -> None:
    found = decode_pass(window(request({100: 1, 200: 1, 300: 1, 400: 1})))
    assert found is not None
    assert [found.tokens_per_s, found.steps_per_s] == pytest.approx([10, 10])
    assert (found.tokens_per_step, found.mean_acceptance_length) == (1.0, None)


def test_with_speculation_steps_are_the_servers_drafts() -> None:
    # 1 | 2 2 1: three drafts, of which two were accepted and delivered.
    found = decode_pass(window(request({100: 1, 200: 2, 300: 2, 400: 1}), drafts=3, accepted=2, draft_tokens=1))
    assert found is not None
    assert found.tokens_per_s == pytest.approx(5 / 0.3)
    assert found.steps_per_s == pytest.approx(3 / 0.3)
    assert found.tokens_per_step == pytest.approx(5 / 3)
    assert found.mean_acceptance_length == pytest.approx(1 + 2 / 3)
    assert found.tokens_per_s == pytest.approx(found.steps_per_s * found.tokens_per_step)


def test_tokens_per_step_is_what_was_delivered_and_not_what_was_accepted() -> None:
    # The last accepted token was trimmed: two drafts, two accepted, three tokens delivered.
    found = decode_pass(window(request({100: 1, 200: 2, 300: 1}), drafts=2, accepted=2, draft_tokens=1))
    assert found is not None
    assert found.tokens_per_step == pytest.approx(3 / 2)
    assert found.mean_acceptance_length == 2.0


def test_a_window_with_a_fault_or_with_several_requests_has_no_figures() -> None:
    one = request({100: 1, 200: 1})
    assert decode_pass(window(one, one)) is None
    assert decode_pass(window()) is None
    assert decode_pass(WindowEvidence(window(one).window, (one,), None, 0)) is None
    assert decode_pass(window(one, drafts=0, accepted=0, draft_tokens=1)) is None


# --- a launch ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ([3.0], 3.0),
        ([1.0, 100.0, 2.0], 2.0),
        ([1.0, 2.0], 1.5),
        ([1.0, None, 2.0], None),
        ([None], None),
        ([], None),
    ],
)
def test_the_figure_of_a_launch_is_the_median_of_all_its_passes_or_none(
    passes: list[float | None], expected: float | None
) -> None:
    assert median(passes) == expected


def test_a_first_prompt_without_a_request_has_no_time(tmp_path: Path) -> None:
    session = Session(tmp_path)
    bundle = session.build()
    [launch] = [x for x in session.plan.launches if x.arm is Arm.CANDIDATE]
    bundle.launch(launch.id).requests_file.write_text("", "utf-8")
    found = read_case(bundle).launches[launch.id]
    assert speed.first_prompt_s(found, 48) is None
    assert speed.prefill(found, 48) is None
    assert speed.decode(found, 48, lambda d: d.tokens_per_s) is None


def test_a_start_ends_with_the_first_request_served(tmp_path: Path) -> None:
    session = Session(tmp_path).both(start_s=12.5)
    case = read_case(session.build())
    for launch in case.launches.values():
        assert startup.start_s(launch) == pytest.approx(12.5, abs=0.2)
        seconds = [p.seconds for p in startup.start_phases(launch)]
        assert sum(seconds) <= (startup.start_s(launch) or 0)


def test_a_launch_that_never_served_has_no_start(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).both(stage="health").build())
    assert [startup.start_s(x) for x in case.launches.values()] == [None, None]


# --- memory ------------------------------------------------------------------------------------------


def test_memory_is_summed_over_processes_and_read_by_phase(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    bundle = Session(tmp_path).build()
    case = read_case(bundle)
    launch = next(iter(case.launches.values()))
    first = launch.windows_of(Step.FIRST_PROMPT, 96)[0].window
    begins = [m.mono_ns for m in launch.marks if m.mark == "step begins"]
    stop = launch.mark_ns("stop asked")
    assert stop is not None
    samples = [  # (ns, process, MiB)
        (begins[1] - 2, "vllm:1", 100),
        (begins[1] - 2, "worker:2", 900),
        (first.begin_ns + 1, "vllm:1", 3000),
        (first.begin_ns + 2, "vllm:1", 2000),
        (stop - 1, "vllm:1", 1500),
        (stop + 1, "vllm:1", 9999),
    ]
    columns = {
        "mono_ns": [t for t, _, _ in samples],
        "process": [p for _, p, _ in samples],
        "rss_bytes": [m << 20 for _, _, m in samples],
    }
    pq.write_table(pa.table(columns), launch.folder.host_samples_file)
    assert memory.idle_mib(launch) == 1000
    assert memory.first_prompt_mib(launch, 96) == 3000
    assert memory.first_prompt_mib(launch, 48) == 1000, "no sample fell into it, so the last one before"
    assert memory.end_mib(launch) == 1500


def test_samples_that_are_missing_or_torn_are_no_samples(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).build())
    for launch, data in zip(case.launches.values(), (None, b"PAR1 torn"), strict=True):
        launch.folder.host_samples_file.unlink()
        if data:
            launch.folder.host_samples_file.write_bytes(data)
        assert memory.series(launch) == Series((), ())
        assert memory.idle_mib(launch) is None
        assert memory.end_mib(launch) is None


def test_a_burst_gives_no_rate_but_its_counts_are_as_good_as_ever() -> None:
    """The client did not run while the events came: 20 of them within a millisecond."""
    one = request({100 + i: 2 for i in range(20)})
    close = one.model_copy(update={"event_ns": tuple(100 * MS + i * 10_000 for i in range(20))})
    burst = window(close, drafts=20, accepted=20, draft_tokens=1)
    assert burst.stalled is not None
    assert "19 of 19 gaps" in burst.stalled
    assert decode_pass(burst) is None
    assert tokens_per_step(burst) == pytest.approx(38 / 20)


def test_events_that_come_apart_are_no_burst() -> None:
    assert window(request({100 + i: 1 for i in range(20)})).stalled is None
