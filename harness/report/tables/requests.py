"""Every request as the client saw it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.rates import decode_rate, decode_s, first_token_s, prefill_rate
from harness.judge.window import WindowEvidence
from harness.observe.phases import PROCESS
from harness.records import PlannedLaunch, RequestRecord, Verdict
from harness.report.launches import in_order
from harness.report.memories import since
from harness.report.tables.columns import Column, Kind, Table, launch_columns
from harness.report.text import public


@dataclass(frozen=True)
class Source:
    """A request with its launch and its window."""

    launch: PlannedLaunch
    window: WindowEvidence
    request: RequestRecord
    origin_ns: int | None
    """When the process was started."""

    def since_start(self, time_ns: int | None) -> float | None:
        """Seconds since the process was started."""
        return None if self.origin_ns is None else since(self.origin_ns, time_ns)

    @property
    def fault(self) -> str | None:
        """Why its window may not be used."""
        return self.window.fault or self.window.stalled


def _requests(case: Case, _: Verdict) -> Iterator[Source]:
    for planned in in_order(case):
        launch = case.launches[planned.id]
        origin = launch.mark_ns(PROCESS)
        yield from (Source(planned, w, r, origin) for w in launch.windows for r in w.requests)


def _first_ns(request: RequestRecord) -> int | None:
    return request.first_token_ns or next(iter(request.event_ns), None)


def _of(value: Callable[[RequestRecord], object]) -> Callable[[Source], object]:
    return lambda x: value(x.request)


REQUESTS = Table(
    "requests",
    "One row per request within a window, by launch and in the order in which they were asked. Rates are of the "
    "request alone; `fault` says where they may not be used.",
    _requests,
    (
        *launch_columns(lambda x: x.launch),
        Column("request", Kind.TEXT, "its name in requests.jsonl", _of(lambda r: r.request)),
        Column("window", Kind.TEXT, "the window between two scrapes that it fell in", _of(lambda r: r.window)),
        Column("step", Kind.TEXT, "step of the course", _of(lambda r: r.step)),
        Column(
            "context_tokens", Kind.INTEGER, "length class of the prompt", _of(lambda r: r.context_tokens), unit="tokens"
        ),
        Column("pass", Kind.INTEGER, "number of the pass, from 0", _of(lambda r: r.pass_number)),
        Column("index", Kind.INTEGER, "place within the pass", _of(lambda r: r.index)),
        Column("streams", Kind.INTEGER, "requests at a time that were asked for", lambda x: x.window.window.streams),
        Column("kind", Kind.TEXT, "kind of request that it probes; missing for all others", _of(lambda r: r.kind)),
        Column("prompt_class", Kind.TEXT, "what the prompt is made of: ids or text", _of(lambda r: r.prompt_class)),
        Column("prompt_tokens", Kind.INTEGER, "length of the prompt", _of(lambda r: r.prompt_tokens), unit="tokens"),
        Column(
            "asked_tokens",
            Kind.INTEGER,
            "output asked for, all sequences",
            _of(lambda r: r.all_asked_tokens),
            unit="tokens",
        ),
        Column("output_tokens", Kind.INTEGER, "output that came", _of(lambda r: sum(r.event_tokens)), unit="tokens"),
        Column("events", Kind.INTEGER, "events that bore tokens", _of(lambda r: len(r.event_ns))),
        Column("status", Kind.INTEGER, "HTTP status; missing where no response came", _of(lambda r: r.status)),
        Column("complete", Kind.FLAG, "served in full, and counted so by the server", _of(lambda r: r.complete)),
        Column("finish_reason", Kind.TEXT, "as the server gave it", _of(lambda r: r.finish_reason)),
        Column("error", Kind.TEXT, "what went wrong", _of(lambda r: None if r.error is None else public(r.error))),
        Column(
            "begin",
            Kind.NUMBER,
            "begun, since the process was started",
            lambda x: x.since_start(x.request.begin_ns),
            unit="s",
        ),
        Column(
            "sent",
            Kind.NUMBER,
            "its last byte handed to the kernel",
            lambda x: x.since_start(x.request.sent_ns),
            unit="s",
        ),
        Column(
            "first_token",
            Kind.NUMBER,
            "first event with a token",
            lambda x: x.since_start(_first_ns(x.request)),
            unit="s",
        ),
        Column("end", Kind.NUMBER, "answered", lambda x: x.since_start(x.request.end_ns), unit="s"),
        Column("ttft", Kind.NUMBER, "time to first token: sent to first token", _of(first_token_s), unit="s"),
        Column("prefill_rate", Kind.NUMBER, "prompt tokens / ttft", _of(prefill_rate), unit="tok/s"),
        Column("decode_time", Kind.NUMBER, "first to last event with a token", _of(decode_s), unit="s"),
        Column(
            "decode_rate", Kind.NUMBER, "tokens after the first event / decode_time", _of(decode_rate), unit="tok/s"
        ),
        Column(
            "fault",
            Kind.TEXT,
            "why figures of its window may not be used",
            lambda x: None if x.fault is None else public(x.fault),
        ),
        Column(
            "prompt_sha256", Kind.TEXT, "hash of the prompt's ids: equal across arms", _of(lambda r: r.prompt_sha256)
        ),
    ),
)
