"""`qualify inspect`: any log of vLLM, whoever ran the server."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.observe.log.fact import COLUMNS
from harness.words import ExitCode
from tests.observe.log.support import KV, STAMP

GOLDEN = Path(__file__).parent / "observe" / "log" / "golden"
SERVED = "h200_vllm0.25.1_mtp1_cold_probe.log"
FAILED = "fail_v0.32.0_cpu_synthetic.log"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["inspect", *arguments]) == ExitCode.PASS
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], place: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(capsys, place, "--format", "json"))
    return found


def test_facts_have_the_columns_of_the_collections_index(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, str(GOLDEN / SERVED))
    assert tuple(found["facts"]) == COLUMNS
    assert found["facts"] == dict.fromkeys(COLUMNS) | {
        "file": str(GOLDEN / SERVED),
        "vllm_version": "0.25.1",
        "ready": "yes",
        "available_kv_gib": 41.54,
        "kv_cache_tokens": 7257568,
        "max_concurrency_x": 219.93,
        "model_load_gib": 0.02,
        "model_load_s": 1.994468,
        "engine_init_s": 48.11,
        "compile_s": 12.24,
        "graph_capture_s": 1,
        "graph_capture_gib": 0.11,
        "jit_monitor_armed": "yes",
        "late_jit_warnings": 1,
        "late_jit_kernels": "_topk_log_softmax_kernel",
        "b12x_misses": 0,
        "b12x_hits": 0,
        "spec_lines": 0,
    }
    assert (found["resolved"]["runner"], found["resolved"]["cudagraph_mode"]) == ("V2", "FULL_AND_PIECEWISE")


def test_events_have_line_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, str(GOLDEN / SERVED))
    log = (GOLDEN / SERVED).read_bytes().split(b"\n")
    assert len(found["events"]) == 38
    assert all(e["text"].split("\n")[0][:40].encode() in log[e["line"] - 1] for e in found["events"])
    [late] = [e for e in found["events"] if e["kind"] == "late jit"]
    assert late["values"]["kernel"] == "_topk_log_softmax_kernel"
    assert late["values"]["detail"].startswith("constexprs={BLOCK_SIZE=1024, TOPK_BLOCK_SIZE=4}; signature=")
    assert (late["process"], late["line"], late["level"]) == ("EngineCore", 107, "WARNING")


def test_a_failed_start_names_its_failure(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, str(GOLDEN / FAILED))
    assert (found["facts"]["ready"], found["failure"]["failure"], found["failure"]["line"]) == (
        "no",
        "unsupported_config",
        99,
    )
    table = told(capsys, str(GOLDEN / FAILED))
    assert "failed: unsupported_config (line 99) AssertionError: Synthetic acceptance not supported" in table


def test_the_table_names_each_facts_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in told(capsys, str(GOLDEN / SERVED)).splitlines() if line}
    assert rows["kv_cache_tokens"] == ["7,257,568", "47"]
    assert rows["late_jit_warnings"] == ["1"]
    assert "spec_accepted_sum" not in rows


def test_phases_of_a_log_that_nobody_timed_are_said_to_be_its_own_stamps(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, str(GOLDEN / SERVED))
    assert found["phases"]["from"] == "from the log's own stamps of whole seconds"
    assert [(p["name"], p["seconds"]) for p in found["phases"]["stretches"]][:2] == [
        ("arguments, to the engine's banner", 77),
        ("workers, to the model", 3),
    ]


def test_packed_logs_and_standard_input_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress((GOLDEN / SERVED).read_bytes()))
    events = as_json(capsys, str(packed))["events"]
    for data in (packed.read_bytes(), (GOLDEN / SERVED).read_bytes()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        assert as_json(capsys, "-")["events"] == events


def test_every_launch_of_a_bundle_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, log in (("001-a", (GOLDEN / SERVED).read_bytes()), ("002-b", b""), ("003-c", f"{STAMP}x\n".encode())):
        (tmp_path / "launches" / name).mkdir(parents=True)
        (tmp_path / "launches" / name / "server.log").write_bytes(log)
    found = as_json(capsys, str(tmp_path))["launches"]
    assert [x.get("facts", {}).get("ready") for x in found] == ["yes", None, None]
    assert "002-b/server.log is no log of vLLM" in found[1]["error"]
    assert found[2]["facts"]["late_jit_warnings"] == 0
    assert told(capsys, str(tmp_path)).count("vllm_version") == 1
    assert as_json(capsys, str(tmp_path / "launches" / "001-a"))["facts"]["ready"] == "yes"


@pytest.mark.parametrize("form", ["json", "table"])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is no log of vLLM"),
        (b"hello\n", "is no log of vLLM"),
        (b"Traceback (most recent call last):\nValueError: x\n", "is no log of vLLM"),
        (b'{"a": "the log says Application startup complete."}\n', "is no log of vLLM"),
        (gzip.compress(f"{STAMP}{KV}\n".encode() * 500)[:-20], "cannot be read"),
        (b"\x1f\x8b not packed", "cannot be read"),
    ],
    ids=["empty", "text", "another program's traceback", "a quotation", "a torn gz", "a false gz"],
)
def test_what_is_no_log_says_so(
    data: bytes, reason: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(data)
    assert main(["inspect", str(tmp_path / "x"), "--format", form]) == ExitCode.USAGE
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(("place", "reason"), [("nowhere", "is not there"), (".", "has no server.log")])
def test_a_place_without_a_log_says_so(
    place: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(tmp_path / place)]) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert reason in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_strangers_text_cannot_command_the_terminal(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nasty = "\x1b]0;title\x07\x9b31m\u202e\x08\x00"
    log = f"{STAMP}{KV}\n(W{nasty} pid=1) ERROR 11-29 16:27:06 [x.py:1] RuntimeError: {nasty}\nOSError: {nasty}\n"
    (tmp_path / "x.log").write_text(log)
    out = told(capsys, str(tmp_path / "x.log"), "--format", form)
    assert "RuntimeError" in out
    assert not set(out) & set("\x1b\x07\x9b\u202e\x08\x00\r")
