"""Start a server as a process group of its own, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil

from harness.launch.launcher import Folders, LaunchFailed, ServerSpec, View
from harness.launch.logpipe import LogPipe
from harness.launch.ports import free_port
from harness.launch.state import (
    KEEPS_MARKER,
    MARKER,
    RunningState,
    abandoned,
    kill_marked,
    new_marker,
    remaining,
    this_process_started,
)
from harness.observe.sampler import Usage, usage
from harness.records import ContainerFacts, Exit

CHILDREN_END_S = 2.0
"""Workers may end this much later than their server before they count as survivors."""


class ProcessLauncher:
    """The `Launcher` for engines that are installed on this host."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def view(self, folders: Folders) -> View:
        """The paths as they are, and a port of the loopback address; see `Launcher.view`."""
        owned = {"CUDA_VISIBLE_DEVICES": ",".join(folders.gpus)} if folders.gpus else {}
        return View("127.0.0.1", free_port(), folders.model, folders.caches, folders.work, folders.tracer, owned=owned)

    def start(self, spec: ServerSpec) -> ProcessServer:
        """Start the server; see `Launcher.start`."""
        marker = new_marker()
        # Written first: if the harness is killed between the two, the next one finds nothing to end.
        state = RunningState(
            launch=spec.launch,
            marker=marker,
            owner_pid=os.getpid(),
            owner_started=this_process_started(),
            work_dir=str(spec.work_dir),
        )
        state_file = state.write(self._state_dir)
        started_ns = time.monotonic_ns()
        try:
            process = subprocess.Popen(
                list(spec.argv),
                env={**spec.env, **KEEPS_MARKER, MARKER: marker},
                cwd=spec.work_dir,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as e:  # ValueError: a NUL in the command or the environment
            state_file.unlink()
            reason = e.strerror if isinstance(e, OSError) else e
            raise LaunchFailed("process", f"cannot start {spec.argv[0]}: {reason}; is the engine installed?") from e
        return ProcessServer(process, marker, state_file, spec, started_ns)

    def clean_up(self) -> list[str]:
        """End what a dead harness left behind; see `Launcher.clean_up`."""
        ended = []
        for path, state in abandoned(self._state_dir):
            killed = kill_marked(state.marker)
            shutil.rmtree(state.work_dir, ignore_errors=True)
            path.unlink(missing_ok=True)
            if killed:
                ended.append(f"{state.launch}: {killed} process(es) of a harness that is gone")
        return ended


class ProcessServer:
    """A running server; see `Server`."""

    def __init__(
        self, process: subprocess.Popen[bytes], marker: str, state_file: Path, spec: ServerSpec, started_ns: int
    ) -> None:
        assert process.stdout is not None
        self._process = process
        self._marker = marker
        self._state_file = state_file
        # The pipe's thread owns the descriptor: Popen must not close it under it.
        self._pipe = LogPipe(os.dup(process.stdout.fileno()), spec.log_file, spec.log_times_file)
        process.stdout.close()
        self._seen: set[psutil.Process] = set()
        self._exit: Exit | None = None
        self.base_url = f"http://127.0.0.1:{spec.port}"
        self.started_ns = started_ns

    def effective_argv(self) -> tuple[str, ...] | None:
        """See `Server.effective_argv`."""
        try:
            return tuple(psutil.Process(self._process.pid).cmdline()) or None
        except psutil.NoSuchProcess:
            return None

    def ended(self) -> Exit | None:
        """See `Server.ended`."""
        if self._exit is not None:
            return self._exit
        code = self._process.poll()
        return None if code is None else _exit(code, asked=False)

    def host_pids(self) -> tuple[int, ...]:
        """See `Server.host_pids`."""
        return (self._process.pid,)

    def usage(self) -> dict[str, Usage]:
        """See `Server.usage`."""
        found: dict[str, Usage] = {}
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                found.update([usage(process)])
        return found

    def stop(self, grace_s: float) -> Exit:
        """SIGTERM to the server, wait, SIGKILL to whatever is still ours; see `Server.stop`."""
        if self._exit is not None:
            return self._exit
        died = self._process.poll()
        if died is None:
            self._family()
            # To the server alone: it ends its workers in its own order, which is part of what is tested.
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        code = self._process.wait()
        self._let_children_end(CHILDREN_END_S)
        survivors = kill_marked(self._marker, tuple(self._seen))
        self._pipe.finish(timeout_s=5.0)
        self._state_file.unlink(missing_ok=True)
        self._exit = _exit(code, asked=died is None, survivors=survivors)
        return self._exit

    def log_digest(self) -> tuple[str, int]:
        """See `Server.log_digest`."""
        return self._pipe.digest()

    def log_cpu_ns(self) -> int | None:
        """See `Server.log_cpu_ns`."""
        return self._pipe.cpu_ns

    def container(self) -> ContainerFacts | None:
        """See `Server.container`."""
        return None

    @property
    def log_write_error(self) -> OSError | None:
        """Why the log file is incomplete, or None."""
        return self._pipe.write_error

    def _family(self) -> list[psutil.Process]:
        """The server and its descendants, empty once it is gone; all are remembered, for the day they are orphans."""
        if self._process.poll() is not None:
            return []
        try:
            root = psutil.Process(self._process.pid)
            family = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
        self._seen.update(family)
        return family

    def _let_children_end(self, grace_s: float) -> None:
        """Workers end a moment after their parent; the pipe closes before the last one has quite gone."""
        deadline = time.monotonic() + grace_s
        self._pipe.finish(grace_s)
        while remaining(self._marker, tuple(self._seen)) and time.monotonic() < deadline:
            time.sleep(0.02)


def _exit(code: int, *, asked: bool, survivors: int = 0) -> Exit:
    if code >= 0:
        return Exit(code=code, signal=None, asked=asked, survivors_killed=survivors)
    try:
        name = signal.Signals(-code).name
    except ValueError:  # of the real-time signals, only the first and the last are named
        name = f"SIGRTMIN{-code - signal.SIGRTMIN:+d}"
    return Exit(code=None, signal=name, asked=asked, survivors_killed=survivors)
