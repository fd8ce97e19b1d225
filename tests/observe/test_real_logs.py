"""Every real log of the collection against the values that its index names."""

from __future__ import annotations

from functools import cache
from io import BytesIO

import pytest

from harness.observe.vllm_log import Event, Kind, events, kv_tokens
from tests.observe.shared_logs import index, log_bytes, needs_logs

LOG_COLUMNS = ("ready", "kv_cache_tokens", "engine_init_s", "jit_monitor_armed", "late_jit_warnings", "vllm_version")
ROWS = [row for row in index() if any(row[column] for column in LOG_COLUMNS)]
"""The rows of logs; those of responses, scrapes and receipts have none of these."""

every_log = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"].rpartition("/")[2][:60])

pytestmark = needs_logs


@cache
def events_of(name: str) -> tuple[Event, ...]:
    return tuple(events(BytesIO(log_bytes(name))))


def found(row: dict[str, str], kind: Kind) -> list[Event]:
    return [event for event in events_of(row["file"]) if event.kind is kind]


def test_the_collection_is_there() -> None:
    assert len(ROWS) > 30


@every_log
def test_ready(row: dict[str, str]) -> None:
    if row["ready"]:
        assert bool(found(row, Kind.HTTP_READY)) == (row["ready"] == "yes")
    else:  # an excerpt that shows neither
        assert found(row, Kind.HTTP_READY) == []


@every_log
def test_kv_tokens(row: dict[str, str]) -> None:
    told = {str(kv_tokens(event)) for event in found(row, Kind.KV_TOKENS)}
    assert told == ({row["kv_cache_tokens"]} if row["kv_cache_tokens"] else set())


@every_log
def test_maximum_concurrency_on_the_same_line_or_on_its_own(row: dict[str, str]) -> None:
    lines = found(row, Kind.KV_TOKENS) + found(row, Kind.CONCURRENCY)
    told = {event.values["concurrency"] for event in lines if "concurrency" in event.values}
    assert told == ({row["max_concurrency_x"]} if row["max_concurrency_x"] else set())


@every_log
def test_engine_initialisation(row: dict[str, str]) -> None:
    told = [event.values["seconds"] for event in found(row, Kind.ENGINE_INIT)]
    assert told == ([row["engine_init_s"]] if row["engine_init_s"] else [])


@every_log
def test_graph_capture(row: dict[str, str]) -> None:
    told = {(event.values["seconds"], event.values["gib"]) for event in found(row, Kind.GRAPHS)}
    assert bool(told) == bool(row["graph_capture_s"])
    if told:  # every rank says it; the index has rank 0's
        assert (row["graph_capture_s"], row["graph_capture_gib"]) in told


@every_log
def test_the_jit_monitor(row: dict[str, str]) -> None:
    assert bool(found(row, Kind.JIT_ARMED)) == (row["jit_monitor_armed"] == "yes")


@every_log
def test_late_kernels(row: dict[str, str]) -> None:
    late = found(row, Kind.LATE_JIT)
    assert len(late) == int(row["late_jit_warnings"] or 0)
    assert ";".join(dict.fromkeys(event.values["kernel"] for event in late)) == row["late_jit_kernels"]


@every_log
def test_the_engines_banner(row: dict[str, str]) -> None:
    told = {event.values["version"] for event in found(row, Kind.ENGINE_BANNER)}
    assert told <= {row["vllm_version"]}


@every_log
def test_a_failure_shows_as_errors(row: dict[str, str]) -> None:
    if row["failure_class"]:
        assert found(row, Kind.ERROR)


@every_log
def test_cut_at_any_line_it_gives_the_first_of_its_events(row: dict[str, str]) -> None:
    lines = BytesIO(log_bytes(row["file"])).readlines()
    whole = events_of(row["file"])
    for kept in (0, len(lines) // 3, len(lines) // 2, len(lines) - 1):
        part = tuple(events(BytesIO(b"".join(lines[:kept]))))
        assert part == whole[: len(part)]
