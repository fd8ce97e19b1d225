"""What outlives the harness: one small file per running server, and the clean-up that reads them.

Only processes that a state file of a dead harness names are ended, and only if they still carry
the marker that the file names: a process number that the system gave to somebody else is left alone.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated

import psutil
from pydantic import BaseModel, ConfigDict, Field

from harness.evidence.bundle import write_record

MARKER = "QUALIFY_LAUNCH_MARKER"
KEEPS_MARKER = {"SPT_NOENV": "1"}
"""vLLM names its processes with setproctitle, which overwrites the environment of /proc unless it is told not to."""


def new_marker() -> str:
    """A value that no other launch carries."""
    return uuid.uuid4().hex


class RunningState(BaseModel):
    """A server that a harness started and has not stopped yet."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    launch: str
    marker: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    owner_pid: Annotated[int, Field(gt=0)]
    owner_started: int
    """Start of the harness process in clock ticks since boot: a reused pid has another, and no
    change of the clock moves it."""
    work_dir: str

    def write(self, folder: Path) -> Path:
        """Write the state file; to be called before the server starts."""
        path = folder / f"{self.marker}.json"
        write_record(path, self)
        return path

    def owner_lives(self) -> bool:
        """True while the harness that started the server is still there."""
        return process_lives(self.owner_pid, self.owner_started)


def this_process_started() -> int:
    """Start of the running harness, in clock ticks since boot."""
    started = _started(os.getpid())
    assert started is not None
    return started


def process_lives(pid: int, started: int) -> bool:
    """True while the process is there that began at this moment (clock ticks since boot)."""
    return _started(pid) == started


def _started(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None where it is gone, or dead and not yet waited for."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if state in (b"Z", b"X") else int(rest[18])


def marked_processes(marker: str) -> list[psutil.Process]:
    """Every process of this user whose environment carries the marker, whoever its parent is now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == marker and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found


def remaining(marker: str, known: Collection[psutil.Process] = ()) -> set[psutil.Process]:
    """What lives of a server: all that carry its marker, and those of `known`, which may have cleared it."""
    return {*marked_processes(marker), *filter(_lives, known)}


def kill_marked(marker: str, known: Collection[psutil.Process] = (), wait_s: float = 10.0) -> int:
    """SIGKILL every process that `remaining` finds, and wait for their end; return how many."""
    killed = 0
    while processes := remaining(marker, known):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()
                killed += 1
        deadline = time.monotonic() + wait_s
        while any(map(_lives, processes)):  # not wait_procs: it waits for init to reap them, which some never do
            if time.monotonic() > deadline:
                return killed  # in uninterruptible sleep: nothing more can be done from here
            time.sleep(0.01)
    return killed


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def abandoned(folder: Path) -> Iterator[tuple[Path, RunningState]]:
    """State files whose harness is gone."""
    for path in sorted(folder.glob("*.json")):
        try:
            state = RunningState.model_validate_json(path.read_bytes())
        except (OSError, ValueError):
            continue  # gone again, not ours, or of another version: never guess what to kill
        if not state.owner_lives():
            yield path, state
