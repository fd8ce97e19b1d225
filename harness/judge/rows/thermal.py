"""Were the GPUs as warm as they get before anything was measured?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.observe.gpu.nvml import Field
from harness.observe.gpu.thermal import steepest
from harness.records import Row
from harness.words import Step, Word

NAME = "thermal gate"


def rows(case: Case) -> Iterator[Row]:
    """One row per lane; nothing for a profile of the CPU, or one without a gate."""
    profile = case.plan.profile
    if not profile.host.gpus or not profile.thermal.longest_s:
        return
    for lane in sorted({x.lane for x in case.plan.launches}):
        burn_ins = [x for x in case.plan.launches if x.burn_in and x.lane == lane]
        yield _row(case, lane, case.launches[burn_ins[-1].id] if burn_ins else None)


def _row(case: Case, lane: int, launch: LaunchEvidence | None) -> Row:
    thermal = case.plan.profile.thermal
    rule = f"below {thermal.slope_c_per_min:g} °C/min over {thermal.window_s:g} s"
    figure, word = None, Word.NOT_TESTED
    sources: tuple[str, ...] = ()
    span = None if launch is None else _span(launch)
    if launch is None:
        reason = "no burn-in launch is planned (plan.burn_in), so the first pairs may run on colder cards"
    elif span is None:
        reason = f"{launch.folder.id} did not come to it"
    else:
        sources = (f"launches/{launch.folder.id}/gpu.parquet temperature_c",)
        begin, end = span
        seen = {
            gpu: [(t, v) for t, v in readings.states.get(Field.TEMPERATURE_C, ()) if t <= end]
            for gpu, readings in launch.gpu.gpus.items()
        }
        slope = steepest(seen, thermal.window_s)
        if slope is None:
            reason = launch.gpu.unreadable(Field.TEMPERATURE_C) or "too few readings of the temperature"
        else:
            last = ", ".join(f"{samples[-1][1]} °C" for samples in seen.values())
            figure = f"{slope:+z.1f} °C/min at {last}"
            settled = abs(slope) < thermal.slope_c_per_min
            word = Word.PASS if settled else Word.WARN
            reason = f"after {(end - begin) / 1e9:.0f} s of load; the gate is {rule}"
            if not settled:
                reason += "; the order of the pairs cancels a steady drift, not all of it"
    return Row(name=NAME, control=figure, unit=f"lane {lane}", word=word, reason=reason, sources=sources)


def _span(launch: LaunchEvidence) -> tuple[int, int] | None:
    """First and last moment of the load, in ns of the monotonic clock."""
    times = [m.mono_ns for m in launch.marks if m.step is Step.SETTLING]
    return (min(times), max(times)) if times else None
