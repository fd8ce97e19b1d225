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

from harness.launch.launcher import LaunchFailed, ServerSpec
from harness.launch.logpipe import LogPipe
from harness.launch.state import MARKER, RunningState, abandoned, kill_marked, new_marker, this_process_started
from harness.records import Exit


class ProcessLauncher:
    """The `Launcher` for engines that are installed on this host."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def start(self, spec: ServerSpec) -> ProcessServer:
        """Start the server; see `Launcher.start`."""
        marker = new_marker()
        # Written first: if the harness is killed between the two, the next one finds nothing to end.
        state = RunningState(spec.launch, marker, os.getpid(), this_process_started(), str(spec.work_dir))
        state_file = state.write(self._state_dir)
        try:
            process = subprocess.Popen(
                list(spec.argv),
                env={**spec.env, MARKER: marker},
                cwd=spec.work_dir,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as e:
            state_file.unlink()
            raise LaunchFailed("process", f"cannot start {spec.argv[0]}: {e.strerror}; is the engine installed?") from e
        return ProcessServer(process, marker, state_file, spec)

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

    def __init__(self, process: subprocess.Popen[bytes], marker: str, state_file: Path, spec: ServerSpec) -> None:
        assert process.stdout is not None
        self._process = process
        self._marker = marker
        self._state_file = state_file
        # The pipe's thread owns the descriptor: Popen must not close it under it.
        self._pipe = LogPipe(os.dup(process.stdout.fileno()), spec.log_file, spec.log_times_file)
        process.stdout.close()
        self._exit: Exit | None = None
        self.base_url = f"http://127.0.0.1:{spec.port}"

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

    def resident_bytes(self) -> dict[str, int]:
        """See `Server.resident_bytes`."""
        sizes: dict[str, int] = {}
        try:
            root = psutil.Process(self._process.pid)
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    sizes[f"{process.name()}:{process.pid}"] = process.memory_info().rss
        except psutil.NoSuchProcess:
            pass
        return sizes

    def first_output_ns(self) -> int | None:
        """See `Server.first_output_ns`."""
        return self._pipe.first_byte_ns

    def stop(self, grace_s: float) -> Exit:
        """SIGTERM to the server, wait, SIGKILL to whatever is still ours; see `Server.stop`."""
        if self._exit is not None:
            return self._exit
        died = self._process.poll()
        if died is None:
            # To the server alone: it ends its workers in its own order, which is part of what is tested.
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self._let_children_end(grace_s=2.0)
        survivors = kill_marked(self._marker)
        code = self._process.wait()
        self._pipe.finish(timeout_s=5.0)
        self._state_file.unlink(missing_ok=True)
        self._exit = _exit(code, asked=died is None, survivors=survivors)
        return self._exit

    def log_digest(self) -> tuple[str, int]:
        """See `Server.log_digest`."""
        return self._pipe.digest()

    @property
    def log_write_error(self) -> OSError | None:
        """Why the log file is incomplete, or None."""
        return self._pipe.write_error

    def _let_children_end(self, grace_s: float) -> None:
        """Workers close a moment after their parent; the pipe's end says that the last one has."""
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and self._process.poll() is not None:
            if self._pipe.finish(timeout_s=0.05):
                return


def _exit(code: int, *, asked: bool, survivors: int = 0) -> Exit:
    if code >= 0:
        return Exit(code=code, signal=None, asked=asked, survivors_killed=survivors)
    return Exit(code=None, signal=signal.Signals(-code).name, asked=asked, survivors_killed=survivors)
