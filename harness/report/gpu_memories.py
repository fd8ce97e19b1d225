"""Free memory of the GPUs of every launch over time, with the phases of its course."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.observe.phases import PROCESS
from harness.records import PlannedLaunch
from harness.report.launches import in_order
from harness.report.memories import Band, bands, since, thinned


@dataclass(frozen=True)
class Line:
    """Free memory of one GPU, in seconds since the server was started and MiB."""

    gpu: int
    """Place in the lane, from 0."""
    times_s: tuple[float, ...]
    mib: tuple[float, ...]

    def between(self, begin_s: float, end_s: float) -> tuple[list[float], list[float]]:
        """Times and sizes of a stretch, thinned without losing a dip."""
        kept = thinned([(t, m) for t, m in zip(self.times_s, self.mib, strict=True) if begin_s <= t <= end_s])
        return [t for t, _ in kept], [m for _, m in kept]


@dataclass(frozen=True)
class GpuTrack:
    """One launch's GPUs."""

    launch: PlannedLaunch
    lines: tuple[Line, ...]
    bands: tuple[Band, ...]
    ready_s: float | None
    stop_s: float | None
    source: str

    @property
    def course(self) -> list[Band]:
        """What was asked once the server was ready."""
        return [] if self.ready_s is None else [b for b in self.bands if b.end_s > self.ready_s]

    @property
    def begin_s(self) -> float:
        """The first sample: before the server was started."""
        return min(line.times_s[0] for line in self.lines)

    @property
    def end_s(self) -> float:
        """The stop, or the last sample of a launch that did not come to it."""
        return self.stop_s if self.stop_s is not None else max(line.times_s[-1] for line in self.lines)


def gpu_tracks(case: Case) -> list[GpuTrack]:
    """Every launch whose GPUs were sampled, in run order."""
    found = [_track(planned, case.launches[planned.id]) for planned in in_order(case)]
    return [t for t in found if t is not None]


def course_range(tracks: Sequence[GpuTrack]) -> tuple[float, float]:
    """Lowest and highest free memory of any course, in MiB."""
    sizes = [
        m
        for t in tracks
        if t.ready_s is not None
        for line in t.lines
        for s, m in zip(line.times_s, line.mib, strict=True)
        if t.ready_s <= s <= t.end_s
    ]
    return min(sizes, default=0.0), max(sizes, default=1.0)


def _track(planned: PlannedLaunch, launch: LaunchEvidence) -> GpuTrack | None:
    origin = launch.mark_ns(PROCESS)
    if origin is None:
        return None
    lines = [
        Line(n, tuple((t - origin) / 1e9 for t in gpu.free.times_ns), gpu.free.mib)
        for n, gpu in enumerate(launch.gpu.gpus.values())
        if gpu.free.times_ns
    ]
    if not lines:
        return None
    return GpuTrack(
        launch=planned,
        lines=tuple(lines),
        bands=tuple(bands(launch, origin)),
        ready_s=since(origin, launch.ready_ns),
        stop_s=since(origin, launch.mark_ns("stop asked")),
        source=f"launches/{planned.id}/gpu.parquet, timeline.jsonl",
    )
