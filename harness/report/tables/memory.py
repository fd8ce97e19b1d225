"""Memory over time, every sample as it was taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.case import Case
from harness.observe.memory import Series
from harness.observe.phases import PROCESS
from harness.records import PlannedLaunch, Verdict
from harness.report.launches import in_order
from harness.report.memories import since
from harness.report.tables.columns import Column, Kind, Table, launch_columns


@dataclass(frozen=True)
class Sample:
    """One moment of one GPU, or of the server's processes together."""

    launch: PlannedLaunch
    rank: int | None
    time_s: float | None
    one: float | None
    other: float | None


def _gpus(case: Case, _: Verdict) -> Iterator[Sample]:
    for planned in in_order(case):
        launch = case.launches[planned.id]
        origin = launch.mark_ns(PROCESS)
        for rank, gpu in enumerate(launch.gpu.gpus.values()):
            yield from _merged(planned, rank, origin, gpu.free, gpu.used)


def _hosts(case: Case, _: Verdict) -> Iterator[Sample]:
    for planned in in_order(case):
        launch = case.launches[planned.id]
        memory = launch.host_memory
        yield from _merged(planned, None, launch.mark_ns(PROCESS), memory.rss, memory.pss)


def _merged(
    planned: PlannedLaunch, rank: int | None, origin: int | None, one: Series, other: Series
) -> Iterator[Sample]:
    """Two series on one clock; one of them may lack moments of the other."""
    first, second = (dict(zip(s.times_ns, s.mib, strict=True)) for s in (one, other))
    for time_ns in sorted(first.keys() | second.keys()):
        time_s = None if origin is None else since(origin, time_ns)
        yield Sample(planned, rank, time_s, first.get(time_ns), second.get(time_ns))


_TIME = Column("time", Kind.NUMBER, "since the process was started; negative before", lambda x: x.time_s, unit="s")

GPU_MEMORY = Table(
    "gpu_memory",
    "One row per GPU and reading, as sampled. What rises and falls between two readings is not in it.",
    _gpus,
    (
        *launch_columns(lambda x: x.launch),
        Column("rank", Kind.INTEGER, "place of the GPU in its lane, from 0", lambda x: x.rank),
        _TIME,
        Column("free", Kind.NUMBER, "free memory of the GPU", lambda x: x.one, unit="MiB"),
        Column("used", Kind.NUMBER, "memory in use on the GPU, by whomever", lambda x: x.other, unit="MiB"),
    ),
    csv=False,
)

HOST_MEMORY = Table(
    "host_memory",
    "One row per reading of the server's processes, summed, as sampled.",
    _hosts,
    (
        *launch_columns(lambda x: x.launch),
        _TIME,
        Column("rss", Kind.NUMBER, "resident memory: shared pages count once per process", lambda x: x.one, unit="MiB"),
        Column(
            "pss",
            Kind.NUMBER,
            "proportional memory: shared pages count once; read less often",
            lambda x: x.other,
            unit="MiB",
        ),
    ),
    csv=False,
)
