"""The thermal gate: keep the GPUs of a lane busy, in its last burn-in launch, until they are as warm as they get.

A cold card and a soaked one differ by about 4 % in decode (notes of owners), so the first measured launches would run
on another machine than the last.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from harness.evidence.bundle import LaunchDir
from harness.observe.gpu.journal import lines
from harness.observe.gpu.nvml import Field
from harness.observe.gpu.thermal import steepest
from harness.records import PlannedLaunch
from harness.session.asking import Wanted
from harness.session.live import LiveLaunch
from harness.words import Step

STREAMS = 8
"""Enough to keep a GPU warm, and no more than any server takes."""
_TEMPERATURE = 4 + list(Field).index(Field.TEMPERATURE_C)
"""Place in a journal's line of kind `state`."""


def is_settling(launch: PlannedLaunch, launches: Sequence[PlannedLaunch]) -> bool:
    """True for the last burn-in launch of a lane."""
    burn_ins = [x for x in launches if x.burn_in and x.lane == launch.lane]
    return bool(burn_ins) and launch.id == burn_ins[-1].id


def settle(server: LiveLaunch) -> None:
    """Decode until the temperature's slope is below the gate, or the time for it is over.

    What was reached is judged from the samples (`judge.rows.thermal`).
    """
    thermal = server.plan.profile.thermal
    course = server.plan.profile.course
    wanted = [Wanted(course.contexts[0].prompt_tokens, course.decode_output_tokens)] * STREAMS
    begin = time.monotonic()
    number = 0
    while time.monotonic() - begin < thermal.longest_s:
        answers = server.ask(Step.SETTLING, wanted, pass_number=number, concurrent=STREAMS)
        if not all(request.complete for request, _ in answers):
            break
        number += 1
        server.read_gpus(Step.SETTLING)
        slope = steepest(_temperatures(server.folder), thermal.window_s)
        if slope is not None and abs(slope) < thermal.slope_c_per_min:
            break


def _temperatures(folder: LaunchDir) -> dict[str, list[tuple[int, int]]]:
    """What the sampler has written so far, by GPU."""
    found: dict[str, list[tuple[int, int]]] = {}
    journal = folder.gpu_samples_file.with_suffix(".journal")
    for line in lines(journal) if journal.is_file() else ():
        if line[0] == "state" and line[_TEMPERATURE] is not None:
            found.setdefault(str(line[3]), []).append((line[1], line[_TEMPERATURE]))
    return found
