"""What a sampler would have seen of a launch, put beside a launch that was played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.judge.case import Case, read_case
from harness.judge.read import LaunchEvidence
from harness.judge.samples import GpuEvidence, GpuReadings
from harness.judge.verdict import judge_case
from harness.observe.gpu.nvml import Field
from harness.observe.memory import Series
from harness.records import GpuEvent, GpuFacts, GpuProcess, GpuSampling, GpuState, GpuWatch, Row, Verdict
from harness.words import Arm

from .bundles import Session

OWN = GpuProcess(pid=7, name="vllm", owner="own", compute=True, used_bytes=1 << 30)
GOOD = GpuSampling(asked_hz=20, readings=100, missed=0, achieved_period_ms=50.0, worst_gap_ms=51.0, cpu_pct=0.5)


@dataclass(frozen=True)
class Seen:
    """Of one launch; by default a GPU of 10,000 MiB of which the server leaves 1,000."""

    uuids: tuple[str, ...] = ("GPU-0",)
    free: Mapping[str, float] = field(
        default_factory=lambda: {"before": 9_900, "idle": 1_000, "long": 900, "after long": 950, "end": 950}
    )
    """MiB by moment; a moment without a figure has no sample."""
    power_mw: Sequence[int] = (300_000,)
    reasons: Sequence[int] = (0,)
    ecc: Sequence[int] = (0,)
    processes: Sequence[Sequence[GpuProcess]] = ((), (OWN,))
    """Before the start, then while serving, evenly spread."""
    xids: Sequence[int] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    sampling: GpuSampling | None = GOOD
    fault: str = ""
    mig: bool = False
    returned: bool | None = True
    holders: str = ""
    wall_jump_s: float = 0.0


def evidence(launch: LaunchEvidence, seen: Seen) -> GpuEvidence:
    """The same as it would be read from the launch's folder."""
    moments = launch.moments
    assert moments.process_ns is not None
    assert moments.asked_ns is not None
    assert moments.stop_ns is not None
    longest = moments.prompts[max(moments.prompts)]
    places = {
        "before": moments.process_ns - 1,
        "idle": moments.asked_ns - 1,
        "long": longest.begin_ns + 1,
        "after long": longest.end_ns + 1,
        "end": moments.stop_ns - 1,
    }
    samples = sorted((places[name], mib) for name, mib in seen.free.items())
    series = Series(tuple(t for t, _ in samples), tuple(m for _, m in samples))

    def spread(values: Sequence[int]) -> tuple[tuple[int, int], ...]:
        begin, end = places["idle"] - 1, places["end"]
        return tuple((begin + (end - begin) * n // max(1, len(values) - 1), v) for n, v in enumerate(values))

    states = {Field.POWER_LIMIT_MW: seen.power_mw, Field.CLOCK_REASONS: seen.reasons, Field.ECC_UNCORRECTED: seen.ecc}
    walls = tuple((t, t + round(seen.wall_jump_s * 1e9) * (t > places["idle"])) for t in sorted(places.values()))
    readings = GpuReadings(free=series, states={str(f): spread(v) for f, v in states.items() if v}, walls=walls)
    gpu = seen.uuids[0]
    events = [
        GpuEvent(
            kind="processes", mono_ns=places["before"] if n == 0 else places["idle"] + n, gpu=gpu, processes=tuple(p)
        )
        for n, p in enumerate(seen.processes)
    ]
    events += [GpuEvent(kind="xid", mono_ns=places["long"], gpu=gpu, code=code) for code in seen.xids]
    events += [
        GpuEvent(kind="unreadable", mono_ns=places["idle"], gpu=gpu, reading=name, code=code)
        for name, code in seen.unreadable.items()
    ]
    unknown = dict.fromkeys(GpuFacts.model_fields)
    facts = tuple(
        GpuFacts.model_validate({**unknown, "uuid": uuid, "mig": seen.mig, "unreadable": {}}) for uuid in seen.uuids
    )
    states_before = tuple(GpuState(gpu=u, used_bytes=100 << 20, free_bytes=None, processes=()) for u in seen.uuids)
    watch = GpuWatch(
        facts=facts,
        before=states_before,
        after=states_before,
        returned=seen.returned,
        return_s=0.5,
        holders=seen.holders,
        sampling=seen.sampling,
        fault=seen.fault,
    )
    return GpuEvidence(watch=watch, gpus=dict.fromkeys(seen.uuids, readings), events=tuple(events))


def judged(folder: Path, change: Callable[[Arm, Seen], Seen] = lambda _, seen: seen) -> Verdict:
    """A session on GPUs that was seen like this, judged."""
    case = seen_case(folder, change)
    return judge_case(case)


def seen_case(folder: Path, change: Callable[[Arm, Seen], Seen], overrides: Mapping[str, object] | None = None) -> Case:
    """The same, not yet judged; with values of the profile by their dotted keys."""
    return watched(Session(folder, {"host.gpus": 1, **(overrides or {})}), change)


def watched(session: Session, change: Callable[[Arm, Seen], Seen]) -> Case:
    """A session of one's own, played on GPUs that were seen like this."""
    case = read_case(session.build())
    for launch in case.launches.values():
        assert launch.record is not None
        # As cached_property does: the launch's folder holds no file of a sampler.
        launch.__dict__["gpu"] = evidence(launch, change(launch.record.launch.arm, Seen()))
    return case


def only(arm: Arm, **fields: object) -> Callable[[Arm, Seen], Seen]:
    """Changes what is seen of one arm."""
    return lambda which, seen: replace(seen, **fields) if which is arm else seen  # type: ignore[arg-type]


def row(verdict: Verdict, name: str, **where: object) -> Row:
    """The only such row."""
    [found] = [r for r in verdict.rows if r.name == name and all(getattr(r, k) == v for k, v in where.items())]
    return found
