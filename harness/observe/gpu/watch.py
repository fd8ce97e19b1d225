"""The harness's end of the sampler: start it, ask it, and take its files over when it is done."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from harness.errors import SetupFailure
from harness.evidence.others import close_for
from harness.observe.gpu.journal import to_parquet
from harness.records import GpuFacts, GpuSampling, GpuState

DEFAULT_HZ = 20.0
ANSWER_S = 30.0
"""A driver that hangs for this long is as good as none."""


class SamplerDied(Exception):  # noqa: N818  # reads as what happened
    """The sampler is gone or does not answer; the message says how."""


class GpuSampler:
    """A running sampler of some GPUs; its answers are as of the moment of the question."""

    def __init__(self, uuids: Sequence[str], samples: Path, events: Path, hz: float = DEFAULT_HZ) -> None:
        """Start it.

        Raises:
            SetupFailure: the driver does not answer for these GPUs.
        """
        self._uuids = tuple(uuids)
        self._samples = samples
        self._events = events
        self._journal = samples.with_suffix(".journal")
        command = [sys.executable, "-m", "harness.observe.gpu", str(self._journal), str(events), str(hz), *uuids]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, name="gpu-sampler", daemon=True)
        self._listener.start()
        try:
            first = self._answer()
        except SamplerDied as e:
            raise SetupFailure(f"the GPU sampler did not start: {e}") from None
        if "error" in first:
            self._end()
            raise SetupFailure(f"the GPUs of the lane cannot be watched: {first['error']}")
        self.facts = tuple(GpuFacts.model_validate(facts) for facts in first["facts"])

    def own(self, pids: Iterable[int]) -> None:
        """Count these processes, and all below them, as the server's.

        Raises:
            SamplerDied: it cannot be asked any more.
        """
        self._ask(" ".join(["own", *map(str, pids)]))

    def read_memory(self) -> None:
        """Take a reading of memory now, whatever the pace: there is one at this moment then.

        Raises:
            SamplerDied: it cannot be asked any more.
        """
        self._ask("memory")

    def look(self) -> tuple[GpuState, ...]:
        """The GPUs now; the reading is among the samples.

        Raises:
            SamplerDied: it cannot be asked any more.
        """
        return tuple(GpuState.model_validate(gpu) for gpu in self._ask("look")["gpus"])

    def finish(self) -> GpuSampling:
        """End it and write the samples as parquet.

        Raises:
            SamplerDied: it had ended before; the samples until then are written.
            OSError: the disk is full; the journal stays.
        """
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            sampling = GpuSampling.model_validate(self._answer()["sampling"])
        except OSError as e:
            raise SamplerDied(str(e)) from e
        finally:
            self._end()
            close_for(self._events)
            close_for(self._journal)
            if self._journal.is_file():
                to_parquet(self._journal, self._uuids, self._samples)
        return sampling

    def _ask(self, command: str) -> dict[str, Any]:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as e:
            raise SamplerDied(self._how()) from e
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=ANSWER_S)
        except queue.Empty:
            raise SamplerDied(f"no answer within {ANSWER_S:g} s; the driver hangs") from None
        if line is None:
            self._answers.put(None)  # so that nobody waits for it again
            raise SamplerDied(self._how())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _how(self) -> str:
        try:
            return f"it ended with code {self._process.wait(1.0)}"
        except subprocess.TimeoutExpired:
            return "it closed its output"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _end(self) -> None:
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def until(condition: Callable[[], bool], seconds: float, period_s: float = 0.1) -> bool:
    """Wait until a condition holds, at most so long; whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(period_s)
    return True
