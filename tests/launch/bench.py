"""Starts scripts and the fake through the launcher, and asks the system about them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from harness.launch.launcher import ServerSpec
from harness.launch.ports import free_port
from harness.launch.process import ProcessLauncher, ProcessServer
from harness.paths import PROJECT

T = TypeVar("T")
PYTHON = (sys.executable, "-I", "-S")
DEADLINE_S = 10.0


def until(look: Callable[[], T | None], timeout_s: float = DEADLINE_S) -> T:
    """What `look` returns, as soon as that is true."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.005)
    return found


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def spec_in(
    root: Path, argv: tuple[str, ...], env: dict[str, str] | None = None, port: int | None = None
) -> ServerSpec:
    """A server that keeps all that it has below `root`."""
    work = root / "work"
    work.mkdir(parents=True)
    return ServerSpec(
        launch=root.name,
        argv=argv,
        env=env or {},
        port=port or free_port(),
        log_file=root / "server.log",
        log_times_file=root / "server.log.times.jsonl",
        work_dir=work,
    )


@dataclass(frozen=True)
class Running:
    """A started server and where its things are."""

    server: ProcessServer
    spec: ServerSpec
    state_file: Path

    @property
    def pid(self) -> int:
        """Of the server, while it runs."""
        return until(lambda: [int(name.rpartition(":")[2]) for name in self.server.usage()])[0]

    @property
    def log(self) -> bytes:
        return self.spec.log_file.read_bytes() if self.spec.log_file.exists() else b""

    @property
    def times(self) -> list[list[int]]:
        return [json.loads(line) for line in self.spec.log_times_file.read_text("ascii").splitlines()]

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.state_file.read_bytes())
        return state

    def wait_for_log(self, text: bytes) -> bytes:
        return until(lambda: self.log if text in self.log else b"")

    def wait_for_line(self) -> str:
        """The log's first line, in full."""
        return self.wait_for_log(b"\n").splitlines()[0].decode()


class Bench:
    """Every server of one test; none of them outlives it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state_dir = root / "state"
        self.launcher = ProcessLauncher(self.state_dir)
        self._running: list[Running] = []

    def start(self, spec: ServerSpec) -> Running:
        before = set(self.state_files())
        server = self.launcher.start(spec)
        [state_file] = set(self.state_files()) - before
        running = Running(server, spec, state_file)
        self._running.append(running)
        return running

    def script(self, code: str, env: dict[str, str] | None = None, port: int | None = None) -> Running:
        """A server that is a few lines of Python."""
        return self.start(spec_in(self._place(), (*PYTHON, "-c", code), env, port))

    def fake(self, model: Path, faults: str = "", **env: str) -> Running:
        """The fake vLLM, whose model is called tiny."""
        port = free_port()
        argv = (sys.executable, "-m", "harness.fakes", "serve", str(model), "--served-model-name", "tiny")
        env = {"PYTHONPATH": str(PROJECT), "QUALIFY_FAKE_FAULTS": faults, **env}
        return self.start(spec_in(self._place(), (*argv, "--port", str(port)), env, port))

    def state_files(self) -> Iterator[Path]:
        return self.state_dir.glob("*.json")

    def close(self) -> None:
        for running in self._running:
            running.server.stop(grace_s=0.0)

    def _place(self) -> Path:
        return self.root / f"launch-{len(self._running)}"


def started_ticks(pid: int) -> int:
    """Start of a process in clock ticks since boot: field 22 of its stat."""
    return int(Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[19])


def environment_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with."""
    raw = Path(f"/proc/{pid}/environ").read_bytes()
    return dict(os.fsdecode(item).split("=", 1) for item in raw.split(b"\0") if item)
