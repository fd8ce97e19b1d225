"""Runs a plan's steps side by side, as many as there are GPUs, until the time is over.

Steps begin in the plan's order and none overtakes another that waits for GPUs, so what is worth most is done
first. A step that takes longer than what is left is passed over: the next visit's.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.words import ExitCode
from tools.visit.plan import Step, VisitPlan
from tools.visit.state import Progress, State, Status

BUNDLE = re.compile(r"^bundle (\S+)$", re.MULTILINE)
"""How `qualify run` says where its bundle lies."""
VERDICTS = {ExitCode.PASS, ExitCode.FAIL, ExitCode.VOID, ExitCode.INCONCLUSIVE}
POLL_S = 0.2
END_S = 40.0
"""For a session that is told to stop: it stops its server and seals what it has."""


@dataclass
class Running:
    """A step's process and the GPUs that it has."""

    step: Step
    process: subprocess.Popen[bytes]
    gpus: tuple[str, ...]
    log: Path
    began: float


@dataclass
class Queue:
    """The steps of a visit."""

    plan: VisitPlan
    state: State
    gpus: Sequence[str]
    """UUIDs."""
    places: dict[str, str]
    folder: Path
    """Logs, and what is to be taken home (`out`)."""
    until: float
    """Monotonic seconds."""
    python: str
    environment: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    coming: Callable[[], frozenset[str]] = frozenset
    """Places that are still being made: a step that names one waits for it."""
    running: list[Running] = field(default_factory=list)

    def run(self) -> None:
        """Work until nothing is left that could begin, and everything that began has ended."""
        while True:
            for one in [r for r in self.running if r.process.poll() is not None]:
                self._ended(one)
            if self.clock() > self.until and self.running:
                self._cut_off()
            waits = self._begin_what_fits()
            if not self.running and not waits:
                break
            time.sleep(POLL_S)
        self.state.write()

    def _begin_what_fits(self) -> bool:
        """Begin steps; True where one waits."""
        for step in self.plan.steps:
            progress = self.state.steps[step.name]
            if progress.status is not Status.WAITING:
                continue
            if step.gpus > len(self.gpus) or self.clock() + step.seconds > self.until:
                progress.status = Status.NO_TIME
                self.state.write()
                continue
            taken = {gpu for r in self.running for gpu in r.gpus}
            free = [gpu for gpu in self.gpus if gpu not in taken]
            if len(free) < step.gpus or any(f"{{{name}}}" in arg for name in self.coming() for arg in step.program):
                return True  # nobody overtakes it
            self._begin(step, progress, tuple(free[: step.gpus]))
        return False

    def _begin(self, step: Step, progress: Progress, gpus: tuple[str, ...]) -> None:
        log = self.folder / "logs" / f"{step.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "out").mkdir(exist_ok=True)
        environment = {**os.environ, **self.environment, "QUALIFY_GPUS": ",".join(gpus)}
        with log.open("wb") as stream:
            process = subprocess.Popen(
                step.argv(self.python, self.places),
                stdout=stream,
                stderr=stream,
                env=environment,
                start_new_session=True,
            )
        self.running.append(Running(step, process, gpus, log, self.clock()))
        progress.status, progress.began_s = Status.RUNNING, time.time()
        self.state.write()

    def _ended(self, one: Running, status: Status | None = None) -> None:
        self.running.remove(one)
        progress = self.state.steps[one.step.name]
        progress.code, progress.took_s = one.process.returncode, self.clock() - one.began
        bundles = BUNDLE.findall(one.log.read_text("utf-8", "replace"))
        # A session is done once it came to a verdict about the engine, whatever it is; a program, as its step says.
        fine = bool(bundles) and progress.code in VERDICTS if one.step.run else progress.code in one.step.results
        progress.status = status or (Status.DONE if fine else Status.BROKEN)
        if bundles:
            bundle = Path(bundles[-1])
            progress.bundle = bundle.name
            pack(bundle, self.folder / "out" / f"{one.step.name}.tgz")
        if progress.status is not Status.DONE or not bundles:
            (self.folder / "out" / f"{one.step.name}.log").write_bytes(one.log.read_bytes())
        self.state.write()

    def _cut_off(self) -> None:
        """Time is over: what runs is asked to stop, and its bundle says so."""
        for one in self.running:
            one.process.terminate()
        for one in list(self.running):
            try:
                one.process.wait(END_S)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            self._ended(one, Status.CUT_OFF)


def pack(bundle: Path, file: Path) -> None:
    """A bundle as one file, whole: of one that is still written, a sampler's journal is all that there is so far."""
    partial = file.with_suffix(".partial")
    with tarfile.open(partial, "w:gz", compresslevel=6) as archive:
        archive.add(bundle, bundle.name)
    partial.replace(file)
