"""What one kind of request did to a server: served or not, kernels that came late, memory that it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.judge.proof import late_compiles
from harness.judge.read import LaunchEvidence
from harness.judge.rows.memory import series
from harness.observe.log import Event, Kind
from harness.observe.memory import Series
from harness.records import RequestRecord
from harness.words import Step


@dataclass(frozen=True)
class Taken:
    """Memory against the last sample before a request, in MiB; what fell between two samples is not seen."""

    peak_mib: float
    kept_mib: float
    """Still taken when the next request began."""


@dataclass(frozen=True)
class Probe:
    """One kind of request, as one launch served it."""

    launch: LaunchEvidence
    request: RequestRecord
    begin_ns: int
    end_ns: int
    """The next step's begin, or the stop: what the request set off may be logged after its last token."""

    @property
    def failure(self) -> str | None:
        """Why it was not served in full, or None."""
        if self.request.complete:
            return None
        return self.request.error or "not every asked token or logprob came"

    @property
    def kernels(self) -> list[str]:
        """Late kernels that the engine's monitor named meanwhile."""
        return sorted({str(e.values["kernel"]) for e in self.launch.of_kind(Kind.LATE_JIT) if self._meanwhile(e)})

    @property
    def compiles(self) -> list[Event]:
        """Compilations that the log names meanwhile."""
        return [e for e in late_compiles(self.launch) if self._meanwhile(e)]

    def _meanwhile(self, event: Event) -> bool:
        time_ns = self.launch.clock.at(event.end_offset)
        return time_ns is not None and self.begin_ns <= time_ns <= self.end_ns


def probes(launch: LaunchEvidence) -> dict[str, Probe]:
    """Every kind that was asked, by its name."""
    found: dict[str, Probe] = {}
    for window in launch.windows_in(Step.REQUEST_KINDS):
        begin = window.window.begin_ns
        ends = (m.mono_ns for m in launch.marks if m.mark in ("step begins", "stop asked"))
        end = next((ns for ns in ends if ns > window.window.end_ns), window.window.end_ns)
        found |= {r.kind: Probe(launch, r, begin, end) for r in window.requests if r.kind is not None}
    return found


def memory_samples(launch: LaunchEvidence) -> tuple[Series, ...]:
    """Samples of the memory that requests take: of each GPU, or of the processes on the host where none is watched."""
    gpus = tuple(gpu.used for gpu in launch.gpu.gpus.values())
    return gpus or (series(launch),)


def taken(samples: Sequence[Series], probe: Probe) -> Taken | None:
    """What a request took and kept, on the rank that it took the most of; None where samples are missing."""
    ranks = []
    for rank in samples:
        before, after = rank.last_before(probe.begin_ns), rank.last_before(probe.end_ns)
        peak = rank.peak(probe.begin_ns, probe.end_ns)
        if before is None or after is None or peak is None:
            return None
        ranks.append(Taken(peak - before, after - before))
    return max(ranks, key=lambda t: t.peak_mib, default=None)


def monitored(launch: LaunchEvidence) -> bool:
    """The engine's monitor was armed: without it, that no kernel is named proves nothing."""
    return bool(launch.of_kind(Kind.JIT_ARMED) or launch.of_kind(Kind.LATE_JIT))
