"""Memory of every launch over time, with the phases of its course."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.judge.rows.memory import series
from harness.observe.phases import PROCESS
from harness.records import PlannedLaunch
from harness.report.launches import in_order
from harness.report.text import tokens_text
from harness.words import Step

MAX_POINTS = 300
"""More than a small picture can show; beyond it, each bucket keeps its lowest and its highest sample."""


@dataclass(frozen=True)
class Band:
    """A stretch of the course, in seconds since the process was started."""

    step: Step
    label: str
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Track:
    """One launch's samples."""

    launch: PlannedLaunch
    times_s: tuple[float, ...]
    mib: tuple[float, ...]
    bands: tuple[Band, ...]
    ready_s: float | None
    stop_s: float | None
    source: str
    measure: str = "RSS"
    """What a sample is: PSS or RSS."""

    @property
    def course(self) -> list[Band]:
        """What was asked once the server was ready; readiness itself belongs to the start-up."""
        return [] if self.ready_s is None else [b for b in self.bands if b.end_s > self.ready_s]

    def between(self, begin_s: float, end_s: float) -> tuple[list[float], list[float]]:
        """Times and sizes of the samples of a stretch, thinned without losing a peak."""
        kept = [(t, m) for t, m in zip(self.times_s, self.mib, strict=True) if begin_s <= t <= end_s]
        thin = thinned(kept)
        return [t for t, _ in thin], [m for _, m in thin]


def tracks(case: Case) -> list[Track]:
    """Every launch that was sampled, in run order."""
    found = [_track(planned, case.launches[planned.id]) for planned in in_order(case)]
    return [t for t in found if t is not None]


def thinned(samples: Sequence[tuple[float, float]], limit: int = MAX_POINTS) -> list[tuple[float, float]]:
    """At most `limit` samples, the extremes of each bucket among them."""
    if len(samples) <= limit:
        return list(samples)
    size = -(-len(samples) // (limit // 2))
    kept = []
    for begin in range(0, len(samples), size):
        bucket = samples[begin : begin + size]
        kept += sorted({min(bucket, key=lambda s: s[1]), max(bucket, key=lambda s: s[1])})
    return kept


def _track(planned: PlannedLaunch, launch: LaunchEvidence) -> Track | None:
    origin, found = launch.mark_ns(PROCESS), series(launch)
    if origin is None or not found.times_ns:
        return None
    return Track(
        launch=planned,
        times_s=tuple((t - origin) / 1e9 for t in found.times_ns),
        mib=found.mib,
        bands=tuple(bands(launch, origin)),
        ready_s=since(origin, launch.ready_ns),
        stop_s=since(origin, launch.mark_ns("stop asked")),
        source=f"launches/{planned.id}/host.parquet, timeline.jsonl",
        measure=launch.host_memory.best[0],
    )


def bands(launch: LaunchEvidence, origin_ns: int) -> list[Band]:
    """Steps of the course; passes of one step that follow each other are one band."""
    found: list[Band] = []
    open_ns: int | None = None
    for mark in launch.marks:
        if mark.mark == "step begins":
            open_ns = mark.mono_ns
        elif mark.mark == "step ends" and open_ns is not None and mark.step is not None:
            label = f"{mark.step} {tokens_text(mark.context_tokens)}".strip()
            begin_s, end_s = (open_ns - origin_ns) / 1e9, (mark.mono_ns - origin_ns) / 1e9
            if found and found[-1].label == label:
                begin_s = found.pop().begin_s
            found.append(Band(mark.step, label, begin_s, end_s))
            open_ns = None
    return found


def since(origin_ns: int, time_ns: int | None) -> float | None:
    """Seconds from one time to another; None where there is none."""
    return None if time_ns is None else (time_ns - origin_ns) / 1e9
