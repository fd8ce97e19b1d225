"""The tracer's files read back: whole lines as they are, everything else counted and left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.observe.jit.trace import Trace, read_trace

PROCESS = {"record": "process", "format": 1, "pid": 7}
HOOK = {"record": "hook", "pid": 7, "hook": "triton.compiler.compiler", "status": "hooked", "detail": "triton 3.6.0"}
KERNEL = {
    "record": "kernel",
    "event": "compile",
    "backend": "Triton",
    "kernel": "_topk_kernel",
    "begin_ns": 100,
    "end_ns": 350_000_100,
    "pid": 7,
    "constexprs": {"B": 2, "A": True, "C": None, "D": 1.5, "E": "fp8"},
    "free_before_bytes": 3 << 20,
    "free_after_bytes": 1 << 20,
}


def trace(folder: Path, *records: dict[str, Any], tail: bytes = b"", name: str = "7.jsonl") -> Trace:
    (folder / name).write_bytes(b"".join(json.dumps(r).encode() + b"\n" for r in records) + tail)
    return read_trace(folder)


def test_an_event_keeps_its_constants_in_their_order(tmp_path: Path) -> None:
    [event] = trace(tmp_path, PROCESS, HOOK, KERNEL).events
    assert list(event.constexprs.items()) == [("B", 2), ("A", True), ("C", None), ("D", 1.5), ("E", "fp8")]
    assert (event.seconds, event.taken_bytes) == (0.35, 2 << 20)
    assert event.place == f"{tmp_path.name}/7.jsonl:3"


def test_memory_that_was_not_read_is_none(tmp_path: Path) -> None:
    [event] = trace(tmp_path, {**KERNEL, "free_after_bytes": None}).events
    assert event.taken_bytes is None


def test_events_of_all_processes_come_in_the_order_of_their_begin(tmp_path: Path) -> None:
    trace(tmp_path, {**KERNEL, "begin_ns": 200, "pid": 8}, name="8.jsonl")
    events = trace(tmp_path, KERNEL, {**KERNEL, "begin_ns": 300}).events
    assert [(e.pid, e.begin_ns) for e in events] == [(7, 100), (8, 200), (7, 300)]


def test_the_last_word_on_a_hook_counts(tmp_path: Path) -> None:
    found = trace(tmp_path, PROCESS, {**HOOK, "status": "waiting"}, HOOK)
    assert found.hooks == ((7, "triton.compiler.compiler", "hooked", "triton 3.6.0"),)
    assert (found.hooked, found.unseen) == (["Triton"], None)


def test_a_missing_folder_is_a_trace_of_nothing(tmp_path: Path) -> None:
    found = read_trace(tmp_path / "missing")
    assert (found.events, found.unseen) == ((), "no process of the server was traced")


def test_a_line_that_was_cut_by_a_kill_is_left_out(tmp_path: Path) -> None:
    found = trace(tmp_path, PROCESS, HOOK, KERNEL, tail=b'{"record":"kernel","eve')
    assert (len(found.events), found.bad_lines, found.unseen) == (1, 0, None)


@pytest.mark.parametrize(
    "change",
    [
        {"event": "other"},
        {"begin_ns": "now"},
        {"begin_ns": 1e400},
        {"kernel": None},
        {"kernel": "x" * 501},
        {"constexprs": {"A": {"deep": 1}}},
        {"constexprs": {str(i): i for i in range(257)}},
        {"pid": None},
        {"origin": "elsewhere"},
        {"record": "else"},
    ],
    ids=lambda c: next(iter(c)),
)
def test_a_line_that_the_tracer_does_not_write_is_counted(tmp_path: Path, change: dict[str, Any]) -> None:
    found = trace(tmp_path, PROCESS, HOOK, {**KERNEL, **change})
    assert (found.events, found.bad_lines) == ((), 1)
    assert found.unseen == "1 lines of the tracer could not be read"


def test_lines_of_another_format_are_not_believed(tmp_path: Path) -> None:
    found = trace(tmp_path, {**PROCESS, "format": 2}, HOOK)
    assert found.unseen == "no process of the server was traced"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(PROCESS) + "\n")
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "7.jsonl").symlink_to(secret)
    assert read_trace(folder).processes == ()


def test_one_process_whose_hook_does_not_fit_is_enough_to_doubt(tmp_path: Path) -> None:
    other = {**HOOK, "pid": 8, "status": "changed", "detail": "no compile; triton 4.0"}
    found = trace(tmp_path, PROCESS, HOOK, other)
    assert found.unseen == "a hook does not fit this version: triton.compiler.compiler: no compile; triton 4.0"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.one_of(st.binary(max_size=60), st.just(json.dumps(KERNEL).encode())), max_size=8))
def test_no_file_breaks_the_reader(tmp_path: Path, lines: list[bytes]) -> None:
    (tmp_path / "7.jsonl").write_bytes(b"\n".join(lines))
    read_trace(tmp_path)


def test_nesting_without_end_is_a_bad_line(tmp_path: Path) -> None:
    assert trace(tmp_path, PROCESS, HOOK, tail=b"[" * 200_000 + b"\n").bad_lines == 1
