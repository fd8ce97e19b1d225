"""`python -m harness.observe.gpu`: the sampler as a process of its own.

The harness's own threads then neither delay it nor are delayed by it. It is told what to do by lines
on its standard input, and answers each with a line of JSON; it ends when that input does, which is
also what the death of the harness looks like from here.

    own PID...   these processes and all below them are the server's
    memory       take a reading of memory now
    look         read everything now and answer with it
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from harness.errors import QualifyError
from harness.evidence.stream import growing_text
from harness.observe.gpu.journal import Journal
from harness.observe.gpu.nvml import Unreadable, open_nvml
from harness.observe.gpu.sampler import MOST_HZ, Sampler


def main(argv: Sequence[str]) -> int:
    """Sample the GPUs `argv[3:]` at `argv[2]` Hz into the journal `argv[0]` and the events `argv[1]`."""
    journal_file, events_file, hz, *uuids = argv
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the harness says when we end
    try:
        nvml = open_nvml()
        devices = [nvml.device(uuid) for uuid in uuids]
    except (QualifyError, Unreadable) as e:
        answer({"error": str(e)})
        return 3
    journal = Journal(Path(journal_file))
    with growing_text(Path(events_file)) as events:
        lock = threading.Lock()

        def tell(event: dict[str, Any]) -> None:
            with lock:
                events.write(json.dumps(event) + "\n")
                events.flush()

        sampler = Sampler(nvml, devices, journal, tell, min(MOST_HZ, float(hz)))
        answer({"facts": sampler.describe()})
        sampling = sampler.run(lambda: obey(sampler, sys.stdin))
        journal.close()
    nvml.close()
    answer({"sampling": sampling})
    return 0


def obey(sampler: Sampler, commands: Iterable[str] | IO[str]) -> None:
    """Follow commands until there are no more."""
    for line in commands:
        word, *rest = line.split()
        if word == "own":
            sampler.family.add(map(int, rest))
            answer({"own": rest})
        elif word == "memory":
            sampler.read_memory()
            answer({"memory": True})
        elif word == "look":
            answer(look(sampler))


def look(sampler: Sampler) -> dict[str, Any]:
    """Everything now: memory per GPU in bytes, processes, and how busy it is; null where it cannot be read."""
    states = sampler.read_state()
    memories = sampler.read_memory()
    sampler.journal.flush()
    return {
        "gpus": [
            {
                "gpu": device.uuid,
                "used_bytes": None if memory is None else memory.used,
                "free_bytes": None if memory is None else memory.free,
                **asdict(state),
            }
            for device, memory, state in zip(sampler.devices, memories, states, strict=True)
        ]
    }


def answer(value: dict[str, Any]) -> None:
    """One line for the harness; nobody may be there any more."""
    try:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
