"""Did the host's clocks run alike? A wall clock that jumped means a clock that was set, or a host that slept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.records import Row
from harness.words import Word

JUMP_S = 1.0
SLEW = 0.001
"""A clock that is being adjusted gains or loses at most half of this (the kernel's limit is 500 ppm)."""


def jump_s(moments: Sequence[tuple[int, int]]) -> float | None:
    """The largest step of wall time against monotonic time between two moments, in s; None where there is none.

    Args:
        moments: monotonic and wall time in ns, of the same instants, in order.
    """
    jumps = [
        (wall_b - wall_a - (mono_b - mono_a)) / 1e9
        for (mono_a, wall_a), (mono_b, wall_b) in pairwise(moments)
        if abs(wall_b - wall_a - (mono_b - mono_a)) / 1e9 > JUMP_S + SLEW * (mono_b - mono_a) / 1e9
    ]
    return max(jumps, key=abs, default=None)


def rows(case: Case) -> Iterator[Row]:
    """One row for the session: times of every launch, by its marks and by its GPU sampler."""
    faults, looked = [], 0
    for launch in case.launches.values():
        for name, moments in (("timeline.jsonl", _marks(launch)), *_readings(launch)):
            looked += len(moments) > 1
            if (jump := jump_s(moments)) is not None:
                faults.append(f"{launch.folder.id}: wall time jumped by {jump:+,.1f} s ({name})")
    if faults:
        word, reason = Word.VOID, f"{faults[0]}: a clock was set, or the host slept"
    elif not looked:
        word, reason = Word.NOT_TESTED, "no launch has two moments"
    else:
        word, reason = Word.PASS, f"wall and monotonic time never parted by more than {JUMP_S:g} s at once"
    yield Row(
        name="clocks",
        word=word,
        reason=reason,
        sources=tuple(f"launches/{x.folder.id}/timeline.jsonl" for x in case.launches.values() if x.marks),
    )


def _marks(launch: LaunchEvidence) -> list[tuple[int, int]]:
    """In order of monotonic time: some marks are written later than they happened."""
    found = []
    for mark in launch.marks:
        try:
            wall = datetime.fromisoformat(mark.wall)
        except ValueError:
            continue
        found.append((mark.mono_ns, round(wall.timestamp() * 1e9)))
    return sorted(found)


def _readings(launch: LaunchEvidence) -> list[tuple[str, Sequence[tuple[int, int]]]]:
    return [("gpu.parquet", gpu.walls) for gpu in launch.gpu.gpus.values()]
