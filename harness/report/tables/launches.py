"""How each launch went."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness.judge.case import Case
from harness.judge.proof import cache_proof
from harness.judge.read import LaunchEvidence
from harness.judge.rows import kv
from harness.judge.rows.health import client_cores
from harness.judge.rows.startup import start_s
from harness.records import LaunchRecord, PlannedLaunch, Verdict
from harness.report.launches import exit_text, in_order
from harness.report.tables.columns import Column, Kind, Table, launch_columns
from harness.report.text import public
from harness.words import LaunchStatus

Source = tuple[PlannedLaunch, LaunchEvidence]


def launches(case: Case, _: Verdict) -> Iterator[Source]:
    """Every planned launch, started or not, in run order."""
    return ((planned, case.launches[planned.id]) for planned in in_order(case))


def _record(value: Callable[[LaunchRecord], Any]) -> Callable[[Source], Any]:
    return lambda x: None if x[1].record is None else value(x[1].record)


def _seconds(record: LaunchRecord) -> float | None:
    return None if record.end_ns is None else (record.end_ns - record.begin_ns) / 1e9


def _text(text: str | None) -> str | None:
    return None if text is None else public(text)


LAUNCHES = Table(
    "launches",
    "One row per planned launch, in run order, those too that failed or never began.",
    launches,
    (
        Column("ordinal", Kind.INTEGER, "place in the session, from 1", lambda x: x[0].ordinal),
        *launch_columns(lambda x: x[0]),
        Column("lane", Kind.INTEGER, "lanes run side by side, each on GPUs of its own", lambda x: x[0].lane),
        Column("look", Kind.INTEGER, "2 = run because the first look was inconclusive", lambda x: x[0].look),
        Column("burn_in", Kind.FLAG, "recorded and measured against nothing", lambda x: x[0].burn_in),
        Column(
            "cache_proven",
            Kind.TEXT,
            "state of the compile caches that log and folders show; missing where nothing began",
            lambda x: None if x[1].record is None else cache_proof(x[1]).proof,
        ),
        Column(
            "status",
            Kind.TEXT,
            "completed, failed, interrupted or not started",
            lambda x: LaunchStatus.NOT_STARTED if x[1].record is None else x[1].record.status,
        ),
        Column("stage", Kind.TEXT, "the stage that failed", _record(lambda r: r.stage)),
        Column("reason", Kind.TEXT, "why it failed", _record(lambda r: _text(r.reason))),
        Column("exit", Kind.TEXT, "how the server ended", _record(lambda r: _text(exit_text(r.exit)))),
        Column("begin", Kind.TEXT, "when it began, ISO 8601 with the zone", _record(lambda r: r.begin_wall)),
        Column("duration", Kind.NUMBER, "from its begin to its end", _record(_seconds), unit="s"),
        Column(
            "start_up",
            Kind.NUMBER,
            "from the process's start to the first request served; missing where none was",
            lambda x: start_s(x[1]),
            unit="s",
        ),
        Column("clock_jump", Kind.TEXT, "how the wall clock left the monotonic one", lambda x: x[1].clock_jump),
        Column(
            "kv_tokens_metrics",
            Kind.INTEGER,
            "size of the KV cache as /metrics gives it",
            lambda x: kv.from_metrics(x[1]),
            unit="tokens",
        ),
        Column(
            "kv_tokens_log", Kind.INTEGER, "the same as the log gives it", lambda x: kv.from_log(x[1]), unit="tokens"
        ),
        Column(
            "gpus",
            Kind.INTEGER,
            "GPUs that were watched",
            _record(lambda r: None if r.gpu is None else len(r.gpu.facts)),
        ),
        Column(
            "client_cpu",
            Kind.NUMBER,
            "CPU of the harness but its GPU sampler in the timed windows, in cores: their median",
            lambda x: client_cores(x[1]),
            unit="cores",
        ),
        Column(
            "log_cpu",
            Kind.NUMBER,
            "CPU of the log's reader over the whole launch; it is part of the client's",
            _record(lambda r: None if r.log_cpu_ns is None else r.log_cpu_ns / 1e9),
            unit="s",
        ),
        Column("log_bytes", Kind.INTEGER, "length of server.log", _record(lambda r: r.log_bytes), unit="bytes"),
        Column("log_sha256", Kind.TEXT, "hash of server.log, taken at the pipe", _record(lambda r: r.log_sha256)),
    ),
)
