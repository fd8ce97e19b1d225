"""Real logs, of the collection and of these tests: what their index names comes out, and nothing else."""

from __future__ import annotations

from functools import cache

import pytest

from harness.observe.log import Event, Kind, events
from harness.observe.log.fact import COLUMNS, Facts
from harness.observe.log.facts import facts
from tests.observe.shared_logs import golden_index, index, log_bytes, needs_logs

ABOUT_THE_FILE = ("file", "source_url", "notes")
ROWS = golden_index() + index()
LOGS = [row for row in ROWS if any(value for name, value in row.items() if name not in ABOUT_THE_FILE)]
"""The rows of logs; those of responses, scrapes and receipts say nothing but what they are."""


def short(row: dict[str, str]) -> str:
    return row["file"][-60:]


@cache
def events_of(name: str) -> tuple[Event, ...]:
    return tuple(events([log_bytes(name)]))


@cache
def facts_of(name: str) -> Facts:
    return facts(events_of(name))


def test_the_golden_logs_are_there() -> None:
    assert len(golden_index()) == 17
    assert tuple(ROWS[0]) == COLUMNS


def test_a_warm_start_with_graphs_on_a_gpu_tells_two_hits_and_no_miss() -> None:
    found = events_of("golden/h200_vllm0.25.1_mtp1_graphs_warm.log")
    assert [e.kind for e in found if e.kind in (Kind.CACHE_HIT, Kind.CACHE_MISS)] == [Kind.CACHE_HIT] * 2


def test_the_monitors_line_of_a_kernel_in_the_cute_dsl_names_no_constants() -> None:
    found = events_of("golden/h200_vllm0.25.1_mtp1_cutedsl_late.log")
    late = [
        (e.values["backend"], e.values["kernel"], bool(e.values.get("detail")))
        for e in found
        if e.kind is Kind.LATE_JIT
    ]
    assert late == [("CuTeDSL", "GatherLongContext", False)] + [("Triton", "_topk_log_softmax_kernel", True)] * 2


@needs_logs
def test_the_collection_is_there() -> None:
    assert len(index()) > 50
    assert tuple(index()[0]) == COLUMNS


@pytest.mark.parametrize("column", [name for name in COLUMNS if name not in ABOUT_THE_FILE])
@pytest.mark.parametrize("row", ROWS, ids=short)
def test_a_value_of_the_index(row: dict[str, str], column: str) -> None:
    fact = facts_of(row["file"]).columns[column]
    if not row[column]:
        assert fact is None
    else:
        assert fact is not None
        value = fact.value
        assert (str(value) if isinstance(value, str) else float(value)) == (
            row[column] if isinstance(value, str) else float(row[column])
        )


@pytest.mark.parametrize("row", ROWS, ids=short)
def test_what_is_no_log_is_seen_as_none(row: dict[str, str]) -> None:
    assert facts_of(row["file"]).is_log == (row in LOGS)


@pytest.mark.parametrize("row", LOGS, ids=short)
def test_a_fact_stands_in_the_line_that_it_names(row: dict[str, str]) -> None:
    lines = log_bytes(row["file"]).split(b"\n")
    for name in ("available_kv_gib", "model_load_gib", "engine_init_s", "graph_capture_gib"):
        fact = facts_of(row["file"]).columns[name]
        if fact:
            assert fact.line is not None
            assert row[name] in lines[fact.line - 1].decode()


@pytest.mark.parametrize("row", LOGS, ids=short)
def test_events_stand_where_they_say(row: dict[str, str]) -> None:
    log = log_bytes(row["file"])
    for event in events_of(row["file"]):
        assert event.line == log.count(b"\n", 0, event.offset) + 1
        assert log[event.end_offset - 1 : event.end_offset] in (b"\n", b"\r")
        assert event.offset == 0 or log[event.offset - 1 : event.offset] in (b"\n", b"\r")


@pytest.mark.parametrize("row", LOGS, ids=short)
def test_cut_anywhere_it_gives_the_first_of_its_events(row: dict[str, str]) -> None:
    log, whole = log_bytes(row["file"]), events_of(row["file"])
    for part in range(1, 24):
        kept = len(log) * part // 24
        found = tuple(events([log[:kept]]))
        assert found == whole[: len(found)]
        assert all(event.end_offset > kept for event in whole[len(found) :])


@pytest.mark.parametrize("row", LOGS, ids=short)
def test_chunks_change_nothing(row: dict[str, str]) -> None:
    log = log_bytes(row["file"])
    for size in (1_000, 4_093, 65_536):
        assert tuple(events(log[at : at + size] for at in range(0, len(log), size))) == events_of(row["file"])
