"""What a killed harness leaves behind is ended by the next one, and nothing else is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.launch.process import ProcessLauncher
from harness.launch.state import abandoned, new_marker, this_process_started
from harness.paths import PROJECT
from tests.launch.bench import Bench, lives, started_ticks, until

SLEEP = "import time; time.sleep(60)"

HARNESS = """
import sys, time
from pathlib import Path
from harness.launch.process import ProcessLauncher
from tests.launch.bench import Bench

bench = Bench(Path(sys.argv[1]))
running = bench.script("import time; time.sleep(60)")
print(running.pid, flush=True)
time.sleep(60)
"""


class Harness:
    """A harness of its own with one server, to be killed."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, str(root)], cwd=PROJECT, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.server = int(self.process.stdout.readline())
        self.state_dir = root / "state"
        self.work_dir = root / "launch-0" / "work"

    def kill(self) -> None:
        self.process.kill()
        until(lambda: not lives(self.process.pid))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        if lives(self.server):
            os.kill(self.server, signal.SIGKILL)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path / "killed")
    yield harness
    harness.close()


@pytest.mark.parametrize("reaped", [True, False], ids=["gone", "dead, but nobody waited for it"])
def test_the_server_of_a_killed_harness_is_ended_and_only_it(harness: Harness, bench: Bench, reaped: bool) -> None:
    bystander = bench.script(SLEEP)
    harness.kill()
    if reaped:
        harness.process.wait()
    assert lives(harness.server)
    assert harness.work_dir.is_dir()

    launcher = ProcessLauncher(harness.state_dir)
    assert launcher.clean_up() == ["launch-0: 1 process(es) of a harness that is gone"]

    assert not lives(harness.server)
    assert not harness.work_dir.exists()
    assert list(harness.state_dir.iterdir()) == []
    assert lives(bystander.pid)
    assert launcher.clean_up() == []


def test_the_server_of_a_living_harness_is_untouched(harness: Harness) -> None:
    before = {file: file.read_bytes() for file in harness.state_dir.iterdir()}
    assert ProcessLauncher(harness.state_dir).clean_up() == []
    assert lives(harness.server)
    assert harness.work_dir.is_dir()
    assert {file: file.read_bytes() for file in harness.state_dir.iterdir()} == before


def test_our_own_running_server_is_untouched(bench: Bench) -> None:
    running = bench.script(SLEEP)
    assert bench.launcher.clean_up() == []
    assert running.server.ended() is None
    assert running.state_file.exists()


def test_nothing_to_clean_up_where_nothing_ever_ran(tmp_path: Path) -> None:
    assert ProcessLauncher(tmp_path / "missing").clean_up() == []


# --- whom a state file names ----------------------------------------------------------------------------


def state(**other: Any) -> dict[str, Any]:
    """A state file's content whose owner is this process."""
    return {
        "launch": "x",
        "marker": new_marker(),
        "owner_pid": os.getpid(),
        "owner_started": this_process_started(),
        "work_dir": "/nowhere",
    } | other


def write(folder: Path, content: bytes | dict[str, Any]) -> Path:
    file = folder / "x.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return file


def test_a_number_given_to_another_process_kills_nobody(tmp_path: Path, bench: Bench) -> None:
    # The owner's number is ours now, with another start; the marker is nobody's.
    bystander = bench.script(SLEEP)
    (tmp_path / "left").mkdir()
    (tmp_path / "states").mkdir()
    file = write(tmp_path / "states", state(owner_started=this_process_started() - 1, work_dir=str(tmp_path / "left")))
    assert ProcessLauncher(tmp_path / "states").clean_up() == []
    assert lives(bystander.pid)
    assert not file.exists()
    assert not (tmp_path / "left").exists()


def test_the_owner_is_told_by_a_clock_that_nobody_can_set(bench: Bench) -> None:
    # The time of day of a start moves with the clock; then a harness would end what another one runs.
    assert bench.script(SLEEP).state["owner_started"] == started_ticks(os.getpid())


@pytest.mark.parametrize("owner_pid", [2**22 + 1, 2**31 - 1])
def test_an_owner_whose_number_nobody_has_is_gone(tmp_path: Path, owner_pid: int) -> None:
    file = write(tmp_path, state(owner_pid=owner_pid))
    assert [path for path, _ in abandoned(tmp_path)] == [file]


DEAD = {"owner_started": 1}  # any of these would be acted on if it were understood


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        json.dumps(state(**DEAD)).encode()[:-20],
        b"\xff\xfe",
        b"null",
        b"[]",
        b'["x", "y", 1, 1, "/z"]',
        b"[" * 100_000,
        {},
        {"theme": "dark"},
        state(**DEAD, version=2),
        state(**DEAD, marker=None),
        state(**DEAD, marker=""),
        state(**DEAD, marker="*"),
        state(**DEAD, owner_pid=None),
        state(**DEAD, owner_pid="1"),
        state(**DEAD, owner_pid=0),
        state(**DEAD, owner_pid=-1),
        state(**DEAD, work_dir=None),
        state(owner_started=1.5),
    ],
    ids=lambda content: type(content).__name__,  # markers and pids differ between workers, names must not
)
def test_what_is_torn_or_not_ours_is_ignored_and_not_deleted(tmp_path: Path, content: bytes | dict[str, Any]) -> None:
    # Only listed, never cleaned up: an empty marker understood as one would end every process there is.
    file = write(tmp_path, content)
    before = file.read_bytes()
    assert list(abandoned(tmp_path)) == []
    assert file.read_bytes() == before


def test_a_file_that_another_clean_up_removes_first_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "x.json").symlink_to(tmp_path / "gone")
    (tmp_path / "y.json").mkdir()
    assert list(abandoned(tmp_path)) == []
