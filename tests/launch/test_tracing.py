"""The tracer's way into a server and its files' way back, past a server that may be hostile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.launch import tracing
from harness.launch.tracing import TRACER, VARIABLE, collect, traced_environment
from harness.observe.jit.trace import read_trace


def test_the_tracers_folder_holds_what_python_looks_for() -> None:
    assert (TRACER / "sitecustomize.py").is_file()
    assert (TRACER / "qualify_tracer" / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("before", "after"), [({}, "/t"), ({"PYTHONPATH": "/own:/more"}, "/t:/own:/more"), ({"PYTHONPATH": ""}, "/t")]
)
def test_it_comes_first_and_hides_nothing(before: dict[str, str], after: str) -> None:
    found = traced_environment({"A": "1", **before}, tracer=Path("/t"), work=Path("/w"))
    assert found == {"A": "1", "PYTHONPATH": after, VARIABLE: "/w/trace"}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A work folder with one file of the tracer."""
    (tmp_path / "work" / "trace").mkdir(parents=True)
    (tmp_path / "work" / "trace" / "7.jsonl").write_text("{}\n")
    (tmp_path / "launch").mkdir()
    return tmp_path


def collected(folder: Path) -> dict[str, str]:
    collect(folder / "work", folder / "launch" / "trace")
    return {p.name: p.read_text() for p in sorted((folder / "launch" / "trace").iterdir())}


def test_the_files_come_into_the_bundle(written: Path) -> None:
    assert collected(written) == {"7.jsonl": "{}\n"}


def test_a_server_cannot_bring_files_of_the_host_into_the_bundle(written: Path) -> None:
    (written / "secret").write_text("secret")
    trace = written / "work" / "trace"
    (trace / "8.jsonl").symlink_to(written / "secret")
    (trace / "9.jsonl").mkdir()
    os.mkfifo(trace / "10.jsonl")
    (trace / "core").write_text("x")
    assert collected(written) == {"7.jsonl": "{}\n"}


def test_a_server_cannot_fill_the_bundle(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "LIMIT_BYTES", 4)
    (written / "work" / "trace" / "8.jsonl").write_text("{}\n")
    assert sorted(collected(written)) == ["7.jsonl", "left-out.jsonl"]
    assert read_trace(written / "launch" / "trace").faults == ("bundle: more than 4 bytes were traced",)


def test_a_trace_that_was_never_written_leaves_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "launch").mkdir()
    assert collected(tmp_path) == {}
