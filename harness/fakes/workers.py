"""The worker processes of a fake server with several ranks: children that bear vLLM's titles and do nothing.

A server of one rank has none, as vLLM's has none.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.fakes import worker_process

TITLE = "VLLM::"


class Workers:
    """One process per rank, in order of the ranks; they end with this one, whatever ends it."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        """Start them, and wait until each bears its title.

        Args:
            names: As their lines carry them, `Worker_TP0`.
        """
        program = str(Path(worker_process.__file__))
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-I", "-S", program, f"{TITLE}{name}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
            for name in names
        ]
        for process in self._processes:
            _wait_for_answer(process)

    @property
    def pids(self) -> tuple[int, ...]:
        """Of every rank."""
        return tuple(process.pid for process in self._processes)

    def vanish(self, ranks: Iterable[int]) -> None:
        """Kill these ranks; it is over when they are gone."""
        for rank in ranks:
            self._processes[rank].kill()
            self._processes[rank].wait()

    def fork(self, ranks: Iterable[int]) -> None:
        """Have each of these ranks fork a child that bears its title for as long as this server lives."""
        for rank in ranks:
            process = self._processes[rank]
            assert process.stdin is not None
            process.stdin.write(b"\n")
            _wait_for_answer(process)

    def end(self) -> None:
        """End them all, as their input's end does."""
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
        for process in self._processes:
            process.wait()


def _wait_for_answer(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.read(1)
