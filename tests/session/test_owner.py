"""A session whose process was killed is found by its lock, and one that runs is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.session.owner import abandoned, disown, own

ROOT = Path(__file__).resolve().parents[2]

OWNER = """
import sys
from pathlib import Path
from harness.session.owner import own
own(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QUALIFY_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def owner(root: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(root)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_session_is_abandoned_once_its_process_is_gone_however_it_went(results: Path) -> None:
    root = results / "a-session"
    with owner(root) as process:
        assert list(abandoned()) == []
        process.kill()
        process.wait()
    assert list(abandoned()) == [root]
    disown(root)
    assert list(abandoned()) == []


def test_a_session_that_is_over_leaves_nothing(results: Path) -> None:
    own(results / "a-session")
    assert list(abandoned()) == []
    disown(results / "a-session")
    assert list((results / ".work" / "sessions").iterdir()) == []


def test_two_that_look_do_not_both_take_it(results: Path) -> None:
    with owner(results / "a-session") as process:
        process.kill()
        process.wait()
    looking = abandoned()
    assert next(looking) == results / "a-session"
    assert list(abandoned()) == []
    looking.close()  # type: ignore[attr-defined]  # it is a generator
    assert list(abandoned()) == [results / "a-session"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"bundle": 1, "host": "x"}', "another host's"])
def test_what_is_not_ours_or_half_written_is_left_alone(results: Path, text: str) -> None:
    folder = results / ".work" / "sessions"
    folder.mkdir(parents=True)
    tree = json.dumps({"bundle": str(results / "a-session"), "host": "elsewhere", "pid": 1})
    (folder / "a-session.lock").write_text(tree if text.startswith("another") else text, "utf-8")
    assert list(abandoned()) == []
