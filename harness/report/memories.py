"""Memory of every launch over time, with the phases of its course and the kernels that came late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.judge.rows.memory import series
from harness.observe.memory import Series
from harness.observe.phases import PROCESS
from harness.records import PlannedLaunch
from harness.report.late_marks import LateMark, late_marks
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
class Line:
    """Samples of one GPU, or of the host, in seconds since the process was started and MiB."""

    name: str
    """`GPU 0`: by its place in the lane."""
    times_s: tuple[float, ...]
    mib: tuple[float, ...]

    def between(self, begin_s: float, end_s: float) -> tuple[list[float], list[float]]:
        """Times and sizes of a stretch, thinned without losing a dip or a peak."""
        kept = thinned([(t, m) for t, m in zip(self.times_s, self.mib, strict=True) if begin_s <= t <= end_s])
        return [t for t, _ in kept], [m for _, m in kept]


@dataclass(frozen=True)
class Track:
    """One launch's samples."""

    launch: PlannedLaunch
    lines: tuple[Line, ...]
    bands: tuple[Band, ...]
    ready_s: float | None
    stop_s: float | None
    source: str
    measure: str
    """`free memory of each GPU`, `PSS on the host`."""
    free: bool
    """Free memory, whose lowest counts; else used memory, whose highest does."""
    late: tuple[LateMark, ...] = ()

    @property
    def course(self) -> list[Band]:
        """What was asked once the server was ready; readiness itself belongs to the start-up."""
        return [] if self.ready_s is None else [b for b in self.bands if b.end_s > self.ready_s]

    @property
    def begin_s(self) -> float:
        """The first sample; of a GPU from before the server was started."""
        return min(line.times_s[0] for line in self.lines)

    @property
    def end_s(self) -> float:
        """The stop, or the last sample of a launch that did not come to it."""
        return self.stop_s if self.stop_s is not None else max(line.times_s[-1] for line in self.lines)

    @property
    def course_end_s(self) -> float:
        """Where a picture of the course ends."""
        return max([b.end_s for b in self.course] + [self.end_s])

    def extreme(self, line: Line) -> tuple[float, float] | None:
        """Time and size of the sample of the course that counts; None for a launch that was never ready."""
        if self.ready_s is None:
            return None
        course = [(t, m) for t, m in zip(line.times_s, line.mib, strict=True) if self.ready_s <= t <= self.end_s]
        pick = min if self.free else max
        return pick(course, key=lambda sample: sample[1], default=None)


def tracks(case: Case) -> list[Track]:
    """The host's memory of every launch that was sampled, in run order."""
    found = [_host(planned, case.launches[planned.id]) for planned in in_order(case)]
    return [t for t in found if t is not None]


def gpu_tracks(case: Case) -> list[Track]:
    """Free memory of the GPUs of every launch whose GPUs were sampled, in run order."""
    found = [_gpus(planned, case.launches[planned.id]) for planned in in_order(case)]
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


def _host(planned: PlannedLaunch, launch: LaunchEvidence) -> Track | None:
    measure = f"{launch.host_memory.best[0]} on the host"
    return _track(planned, launch, {"host": series(launch)}, "host.parquet", measure, free=False)


def _gpus(planned: PlannedLaunch, launch: LaunchEvidence) -> Track | None:
    free = {f"GPU {n}": gpu.free for n, gpu in enumerate(launch.gpu.gpus.values())}
    return _track(planned, launch, free, "gpu.parquet", "free memory of each GPU", free=True)


def _track(
    planned: PlannedLaunch, launch: LaunchEvidence, found: dict[str, Series], file: str, measure: str, *, free: bool
) -> Track | None:
    origin = launch.mark_ns(PROCESS)
    if origin is None or not any(s.times_ns for s in found.values()):
        return None
    return Track(
        launch=planned,
        lines=tuple(
            Line(name, tuple((t - origin) / 1e9 for t in s.times_ns), s.mib) for name, s in found.items() if s.times_ns
        ),
        bands=tuple(bands(launch, origin)),
        ready_s=since(origin, launch.ready_ns),
        stop_s=since(origin, launch.mark_ns("stop asked")),
        source=f"launches/{planned.id}/{file}",
        measure=measure,
        free=free,
        late=tuple(late_marks(launch, origin)),
    )


def since(origin_ns: int, time_ns: int | None) -> float | None:
    """Seconds since the origin; None where there is no time."""
    return None if time_ns is None else (time_ns - origin_ns) / 1e9
