"""When kernels came late, on the clock of the memory's pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.late import late_from
from harness.judge.ledger import timed_changes
from harness.judge.proof import late_compiles
from harness.judge.read import LaunchEvidence
from harness.observe.jit.trace import read_trace
from harness.observe.log import Kind


@dataclass(frozen=True)
class LateMark:
    """A late kernel of one source."""

    time_s: float
    """Since the process was started."""
    source: str
    kernel: str


def late_marks(launch: LaunchEvidence, origin_ns: int) -> list[LateMark]:
    """Every late event whose time is known, in order of time; equal ones of one source once per second."""
    found = sorted(_marks(launch), key=lambda m: m[0])
    kept: dict[tuple[int, str, str], LateMark] = {}
    for time_ns, source, kernel in found:
        seconds = (time_ns - origin_ns) / 1e9
        kept.setdefault((int(seconds), source, kernel), LateMark(seconds, source, kernel))
    return list(kept.values())


def _marks(launch: LaunchEvidence) -> Iterator[tuple[int, str, str]]:
    """Time, source and kernel, by the ledger's own rules of what is late."""
    since, stop = late_from(launch), launch.mark_ns("stop asked")

    def late(time_ns: int | None) -> bool:
        return since.is_late(time_ns) and (stop is None or time_ns is None or time_ns < stop)

    for event in launch.of_kind(Kind.LATE_JIT):
        if (time_ns := launch.clock.at(event.end_offset)) is not None:
            yield time_ns, "monitor", str(event.values["kernel"])
    for event in late_compiles(launch):
        if (time_ns := launch.clock.at(event.end_offset)) is not None:
            yield time_ns, "compiles", str(event.values.get("target") or "no name")
    for change, time_ns, _ in timed_changes(launch):
        if time_ns is not None and late(time_ns) and change.kernel:
            yield time_ns, "compiles", change.kernel
    for traced in read_trace(launch.folder.trace_dir).events:
        if traced.error is None and late(traced.begin_ns):
            yield traced.begin_ns, "tracer", traced.kernel
