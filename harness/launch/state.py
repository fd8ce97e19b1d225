"""What outlives the harness: one small file per running server, and the clean-up that reads them.

Only processes that a state file of a dead harness names are ended, and only if they still carry
the marker that the file names: a process number that the system gave to somebody else is left alone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from harness.evidence.bundle import write_json

MARKER = "QUALIFY_LAUNCH_MARKER"


def new_marker() -> str:
    """A value that no other launch carries."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class RunningState:
    """A server that a harness started and has not stopped yet."""

    launch: str
    marker: str
    owner_pid: int
    owner_started: float
    """Creation time of the harness process; a reused pid has another."""
    work_dir: str

    def write(self, folder: Path) -> Path:
        """Write the state file; to be called before the server starts."""
        path = folder / f"{self.marker}.json"
        write_json(path, asdict(self))
        return path

    def owner_lives(self) -> bool:
        """True while the harness that started the server is still there."""
        try:
            return psutil.Process(self.owner_pid).create_time() == self.owner_started
        except psutil.NoSuchProcess:
            return False


def this_process_started() -> float:
    """Creation time of the running harness."""
    return psutil.Process().create_time()


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


def kill_marked(marker: str, wait_s: float = 10.0) -> int:
    """SIGKILL every process that carries the marker, and wait for their end; return how many."""
    killed = 0
    while processes := marked_processes(marker):
        for process in processes:
            try:
                process.kill()
                killed += 1
            except psutil.NoSuchProcess:
                continue
        _, alive = psutil.wait_procs(processes, timeout=wait_s)
        if alive:
            break  # in uninterruptible sleep: nothing more can be done from here
    return killed


def abandoned(folder: Path) -> Iterator[tuple[Path, RunningState]]:
    """State files whose harness is gone."""
    for path in sorted(folder.glob("*.json")):
        try:
            state = RunningState(**json.loads(path.read_text("utf-8")))
        except (ValueError, TypeError):
            continue  # not ours, or of another version: never guess what to kill
        if not state.owner_lives():
            yield path, state
