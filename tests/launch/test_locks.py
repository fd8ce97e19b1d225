"""Locks between launches: held by the operating system, gone with the process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.launch.locks import lane_lock
from harness.paths import PROJECT

HOLD = """
import subprocess, sys
from harness.launch.locks import lane_lock
held = lane_lock(tuple(sys.argv[1:]), 0)
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL)
print(server.pid, flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that holds a lock, and has started a server."""

    def __init__(self, *resources: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, *resources],
            cwd=PROJECT,
            env={**os.environ, "TMPDIR": tempfile.gettempdir()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.server = int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        os.kill(self.server, 9)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / "qualify-locks"


@pytest.fixture
def holder() -> Iterator[Holder]:
    holder = Holder("GPU-b")
    yield holder
    holder.close()


def release(locks: tuple[str, ...]) -> None:
    for lock in lane_lock(locks, 0):
        lock.release()


def test_a_second_holder_in_another_process_is_a_setup_failure(holder: Holder) -> None:
    del holder
    with pytest.raises(SetupFailure, match="GPU-b is in use by another launch; wait for it, or use another lane"):
        lane_lock(("GPU-b",), 0.05)


def test_another_resource_is_free(holder: Holder) -> None:
    del holder
    release(("GPU-a", "GPU-c"))


def test_the_lock_goes_with_a_killed_holder_though_its_server_lives(holder: Holder) -> None:
    holder.process.kill()
    holder.process.wait()
    os.kill(holder.server, 0)
    release(("GPU-b",))


def test_of_several_resources_none_is_kept_when_one_is_taken(holder: Holder) -> None:
    del holder
    with pytest.raises(SetupFailure, match="GPU-b"):
        lane_lock(("GPU-c", "GPU-b", "GPU-a"), 0)
    Holder("GPU-a", "GPU-c").close()


def test_a_second_lane_of_this_process_is_kept_out_too() -> None:
    held = lane_lock(("GPU-a",), 0)
    with pytest.raises(SetupFailure, match="GPU-a"):
        lane_lock(("GPU-a",), 0)
    for lock in held:
        lock.release()
    release(("GPU-a",))


def test_other_users_meet_our_locks_whatever_our_umask(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        held = lane_lock(("GPU-a",), 0)
        [file] = folder.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o777
        assert stat.S_IMODE(file.stat().st_mode) == 0o666
    finally:
        os.umask(before)
    held[0].release()
