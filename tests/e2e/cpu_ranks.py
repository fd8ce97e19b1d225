"""Sessions of real vLLM on the CPU, a process per rank, in which something is done to a rank."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from harness.evidence.bundle import LaunchDir
from harness.judge import ranks
from harness.judge.case import read_case
from harness.judge.read import LaunchEvidence
from harness.observe.log import Kind
from harness.observe.log.process import TITLE
from harness.observe.vanished import vanished_worker
from harness.words import Step

from .engine import EAGER
from .sessions import Finished, left_running, sets, start, wait_for

PROFILE = "cpu-forged-tp2"
END_S = 1500.0
"""By when a launch has come to its last step, and a session has ended."""


@dataclass(frozen=True)
class Running:
    """A session of two launches that runs."""

    process: subprocess.Popen[str]
    results: Path

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def has_begun(self, ordinal: int, step: Step) -> bool:
        """Of the launch with this number."""
        files = [LaunchDir(folder).timeline_file for folder in self.results.glob(f"2*/launches/{ordinal:03}-*")]
        return any(f'"{step}"' in f.read_text("utf-8") for f in files if f.is_file())

    def comes_to(self, ordinal: int, step: Step) -> bool:
        """Wait for it; False where the session has ended."""
        wait_for(lambda: self.has_begun(ordinal, step) or self.has_ended, END_S)
        return not self.has_ended

    def ranks(self) -> dict[str, psutil.Process]:
        """Of the launch that runs now, by title, as the system names them; what a rank forks has a later pid."""
        titled = [(p.cmdline(), p) for p in reversed(left_running(self.results))]
        return {argv[0]: p for argv, p in titled if argv and argv[0].startswith(f"{TITLE}Worker_TP")}

    def rank(self, name: str) -> psutil.Process:
        """`TP2`."""
        return self.ranks()[f"{TITLE}Worker_{name}"]


def session(results: Path, meddle: Callable[[Running], None], *settings: str) -> Finished:
    """Two launches, one per arm, run to their end while `meddle` looks for the moment."""
    options = sets(*EAGER, *settings, "client.selftest_s=0", "plan.rerun_void=false")
    process = start(results, "--profile", PROFILE, "--no-history", *options)
    try:
        meddle(Running(process, results))
        out, _ = process.communicate(timeout=END_S)
    finally:
        process.kill()
    return Finished(process.returncode, out, results)


def launch(done: Finished, ordinal: int) -> LaunchEvidence:
    """By its number, from 1."""
    every = read_case(done.bundle).launches.values()
    [found] = [x for x in every if x.record and x.record.launch.ordinal == ordinal]
    return found


def is_told_dead(rank: str, reason: str | None) -> bool:
    """By its name, with the right exit code: vLLM asks for the code before it is there now and then, and has none."""
    died = rf"worker {rank} died(?! \()|worker {rank} died \(exit code -9\)"
    return re.search(died, reason or "") is not None


def vanished(found: LaunchEvidence) -> str:
    """What the samples of its processes tell, up to the stop: `worker TP1 vanished (...)`, or `None`."""
    stop = found.mark_ns("stop asked")
    assert stop is not None
    table = pq.read_table(found.folder.host_samples_file).to_pylist()
    return str(vanished_worker([*row.values()] for row in table if row["mono_ns"] <= stop))


def check_lines_and_memory(sound: LaunchEvidence, names: tuple[str, ...]) -> None:
    """Every rank has lines, a KV cache and a process of its own."""
    known = ranks.ranks(sound)
    assert known.names == names
    assert {known.of(e) for e in sound.of_kind(Kind.MEMORY_FIXED)} == set(names)
    assert ranks.kv_gib(sound, known) == dict.fromkeys(names, 1.0)
    stop = sound.mark_ns("stop asked")
    sizes = ranks.host_mib(sound, known, lambda series: series.last_before(stop))
    assert all(mib is not None and mib > 100 for mib in sizes.values()), sizes
