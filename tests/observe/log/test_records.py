"""What stands around a line: prefixes, colours, progress bars, other writers."""

from __future__ import annotations

import json

import pytest

from harness.observe.log import Kind
from harness.observe.log.process import parse_process
from harness.observe.log.records import records
from tests.observe.log.support import KV, STAMP, only, parsed

PREFIX = "(Worker_TP1 pid=7) "
BAR = "Capturing CUDA graphs (decode, FULL):  50%|#####     | 5/10 [00:01<00:01,  4.99it/s]"


@pytest.mark.parametrize(
    ("prefix", "process"),
    [
        ("", ""),
        ("(EngineCore pid=123) ", "EngineCore"),
        ("(EngineCore_0 pid=123) ", "EngineCore_0"),
        ("(EngineCore_DP0 pid=123) ", "EngineCore_DP0"),
        ("(APIServer pid=1) ", "APIServer"),
        ("(Worker_PP0_TP1 pid=99) ", "Worker_PP0_TP1"),
        ("(VllmWorker rank=0 pid=99) ", "VllmWorker rank=0"),
        ("(VllmWorker-0 pid=99) ", "VllmWorker-0"),
        ("(EngineCore pid=1) (RayWorkerWrapper pid=99, ip=10.0.0.7) ", "RayWorkerWrapper"),
        ("(Worker_TP0 pid=1) (Worker_TP0 pid=1) ", "Worker_TP0"),
        ("(Worker_TP0 pid=1) (Worker_TP1 pid=2) ", ""),
    ],
)
def test_a_prefix_names_the_process(prefix: str, process: str) -> None:
    event = only(f"{prefix}{STAMP}{KV}")
    assert (event.process, event.text, event.source) == (process, KV, "kv_cache_utils.py:2327")
    assert only(f"{prefix}{KV}").process == process


@pytest.mark.parametrize(
    ("name", "role", "ranks"),
    [
        ("", "", {}),
        ("APIServer", "APIServer", {}),
        ("ApiServer_3", "ApiServer", {"rank": 3}),
        ("EngineCore_0", "EngineCore", {"rank": 0}),
        ("EngineCore_DP1", "EngineCore", {"dp": 1}),
        ("DPEngineCoreActor_DP1", "DPEngineCoreActor", {"dp": 1}),
        ("VllmWorker rank=3", "VllmWorker", {"rank": 3}),
        ("VllmWorker-3", "VllmWorker", {"rank": 3}),
        ("Worker_TP3_DCP3", "Worker", {"tp": 3, "dcp": 3}),
        (
            "Worker_DP1_PP2_PCP3_TP4_DCP5_EP6",
            "Worker",
            {"dp": 1, "pp": 2, "pcp": 3, "tp": 4, "dcp": 5, "ep": 6},
        ),
    ],
)
def test_a_name_carries_ranks(name: str, role: str, ranks: dict[str, int]) -> None:
    process = parse_process(name)
    told = {k: v for k in ("rank", "dp", "pp", "pcp", "tp", "dcp", "ep") if (v := getattr(process, k)) is not None}
    assert (process.name, process.role, told) == (name, role, ranks)


@pytest.mark.parametrize(
    "around",
    [
        "Aug 11 20:31:07 host-1 bash[123]: ",
        "\u0430\u0432\u0433 18 14:15:02 host-2 python3[28059]: ",
        "2026-11-29T16:27:06+0100 host-1 vllm.service[123]: ",
        "2026-11-29T16:27:06.123456789Z ",
        "2026-11-29T16:27:06.123456789+01:00 stdout F ",
        "vllm-1  | ",
        "vllm-1  | 2026-11-29T16:27:06.123Z ",
        "[pod/vllm-abc/server] ",
        "3: ",
        "[rank3]: ",
        "[default3]:",
        f"{BAR}\r",
        BAR,
        "torn away from a mess",
    ],
)
def test_what_stands_before_a_line_is_left_out(around: str) -> None:
    event = only(f"{around}{PREFIX}{STAMP}{KV}")
    assert (event.process, event.pid, event.level, event.stamp, event.text) == (
        "Worker_TP1",
        7,
        "INFO",
        "11-29 16:27:06",
        KV,
    )


@pytest.mark.parametrize(
    "log",
    [
        f"{STAMP}{KV}\r\n".encode(),
        f"\x1b[1;36m(Worker_TP1 pid=7)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-29 16:27:06\x1b[0m "
        f"\x1b[90m[a.py:1]\x1b[0m {KV}\x1b[0m\n".encode(),
        f"\x1b[2K\x1b[1A{STAMP}GPU \x1b[31mKV cache\x1b[0m size: 894,492 tokens, {KV.partition(', ')[2]}\n".encode(),
        f"\r{BAR}  \r{BAR} \r{BAR}\r{STAMP}{KV}\n".encode(),
        f"{STAMP}{KV}\r{BAR}\n".encode(),
        b"\xff\xfe \xe9t\xe9 " + KV.encode() + b"\n",
        b"\x00" + KV.encode() + b"\n",
    ],
    ids=["CRLF", "colours", "colours in words", "after a bar", "before a bar", "not UTF-8", "NUL"],
)
def test_the_line_is_understood_all_the_same(log: bytes) -> None:
    event = only(log)
    assert (event.kind, event.values["tokens"]) == (Kind.KV_TOKENS, 894_492)
    assert log[event.end_offset - 1] in b"\r\n"


def test_bytes_that_are_no_text_are_shown_as_escapes() -> None:
    assert only(b"RuntimeError: \xff\n").text == "RuntimeError: \\xff"


# --- several writers in a line --------------------------------------------------------------------------


def test_two_records_in_one_line_are_two() -> None:
    other = "Graph capturing finished in 3 secs, took 0.17 GiB"
    first, second = parsed(f"{PREFIX}{STAMP}{KV}(Worker_TP2 pid=8) {STAMP}{other}\n")
    assert (first.process, first.text, first.line) == ("Worker_TP1", KV, 1)
    assert (second.process, second.text, second.line) == ("Worker_TP2", other, 1)


def test_a_record_that_was_cut_in_two_says_nothing() -> None:
    found = parsed(f"{PREFIX}{STAMP}GPU KV cache si(Worker_TP2 pid=8) {STAMP}nothing\nze: 894,492 tokens\n")
    assert found == []


# --- JSON -----------------------------------------------------------------------------------------------


def vllm_json(**fields: object) -> str:
    head = {"asctime": "2026-11-29 16:39:31,823", "levelname": "INFO", "name": "vllm.v1.core", "process": 37}
    return json.dumps(head | fields | {"vllm_process_name": "EngineCore_DP1"})


def test_a_json_line_is_what_its_message_is() -> None:
    event = only(vllm_json(message=KV))
    assert (event.kind, event.text, event.process, event.pid) == (Kind.KV_TOKENS, KV, "EngineCore_DP1", 37)
    assert (event.level, event.stamp, event.source) == ("INFO", "2026-11-29 16:39:31,823", "vllm.v1.core")
    assert event.speaker.dp == 1


def test_json_escapes_are_undone() -> None:
    took = "init engine (x) took 87.98 s (compilation: 11.95 s \u2014 encoder: 1.00 s)"
    assert only(vllm_json(message=took)).text == took


def test_a_json_traceback_has_its_last_line_too() -> None:
    trace = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'a_ext'"
    found = parsed(vllm_json(levelname="ERROR", message="EngineCore failed to start.", exc_info=trace) + "\n")
    assert [e.values.get("fatal") or e.values.get("failure") for e in found] == [
        "engine",
        None,
        None,
        "missing_extension",
    ]
    assert {e.line for e in found} == {1}


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"log": f"{PREFIX}{STAMP}{KV}\n", "stream": "stdout", "time": "2026-11-29T16:27:06Z"}),
        json.dumps({"log": vllm_json(message=KV) + "\n", "stream": "stdout"}),
        json.dumps({"MESSAGE": f"{PREFIX}{STAMP}{KV}", "PRIORITY": "6"}),
        json.dumps({"__CURSOR": "a", "MESSAGE": list(f"\x1b[31m{STAMP}{KV}".encode())}),
        f"{BAR}{vllm_json(message=KV)}",
        f"vllm-1  | {vllm_json(message=KV)}",
    ],
    ids=["docker", "vLLM in docker", "journald", "journald's bytes", "after a bar", "in compose"],
)
def test_json_may_stand_in_json_and_in_prefixes(line: str) -> None:
    assert (only(line).kind, only(line).text) == (Kind.KV_TOKENS, KV)


def test_journalds_priority_is_a_level_where_the_text_has_none() -> None:
    event = only(json.dumps({"PRIORITY": "3", "MESSAGE": "something broke"}))
    assert (event.kind, event.level) == (Kind.ERROR, "ERROR")
    assert parsed(json.dumps({"PRIORITY": "6", "MESSAGE": "something broke"}) + "\n") == []
    assert only(json.dumps({"PRIORITY": "3", "MESSAGE": f"{STAMP}{KV}"})).level == "INFO"


def test_a_message_of_several_lines_has_several_records() -> None:
    spaces = " " * 9
    found = parsed(json.dumps({"MESSAGE": f"(A pid=1){spaces}\n{STAMP}{KV}\n{STAMP}{KV}"}) + "\n")
    assert [e.text for e in found] == [KV, KV]
    assert parsed(f"(A pid=1){spaces}\u2028{STAMP}{KV}\n")[0].text == KV


@pytest.mark.parametrize(
    "line",
    ['{"message": 7}', '{"message": "KV', "[" * 5000, '{"log": {"log": 1}}', '{"MESSAGE": [1, 999]}', "{" * 5000],
)
def test_what_only_looks_like_json_breaks_nothing(line: str) -> None:
    assert [r.text for r in records(line.encode())] in ([line], [])
