"""The JIT ledger of a launch, derived from its evidence: monitor, compiles, tracer, memory, each by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from harness.judge.first_memory import first_prompt_memory
from harness.judge.late import STOPPING, Course, LateFrom, WallClock, is_late_line, late_from
from harness.judge.rates import first_token_s
from harness.judge.read import LaunchEvidence
from harness.observe.jit.b12x import constants
from harness.observe.jit.files import Change, changes
from harness.observe.jit.ledger import FirstSecond, Ledger, Sighting, Source, lines
from harness.observe.jit.mismatch import Mismatch, mismatches, rank_text, specialisation, text
from harness.observe.jit.trace import Trace, TraceEvent, read_trace
from harness.observe.log import Kind
from harness.words import Step

MIB = 1 << 20
ARMED, NOT_ARMED = "armed", "not armed"
SEEN, NOT_TRACED = "seen", "not traced"

COMPILED, FROM_DISK = "compiled", "loaded from disk"
_CONSTEXPRS = re.compile(r"constexprs=\{([^}]*)\}")


def ledger(launch: LaunchEvidence) -> Ledger:
    """Everything that this launch shows about kernels that were compiled or first loaded."""
    assert launch.record is not None
    planned, since = launch.record.launch, late_from(launch)
    trace = read_trace(launch.folder.trace_dir)
    sightings = [*monitor_lines(launch), *log_compiles(launch, since), *new_files(launch, since)]
    if planned.trace:
        sightings += traced(launch, trace, since)
    return Ledger(
        launch=planned.id,
        arm=planned.arm,
        mode=planned.mode,
        warmup=planned.warmup,
        cache=planned.cache,
        trace=planned.trace,
        late_from=since.since,
        monitor=ARMED if is_armed(launch) else NOT_ARMED,
        tracer=tracer_state(launch, trace),
        lines=lines(sightings),
        first_second=tuple(first_second(launch)),
        memory=tuple(first_prompt_memory(launch, c) for c in contexts(launch)),
    )


def is_armed(launch: LaunchEvidence) -> bool:
    """The engine says so, or the monitor itself speaks."""
    return bool(launch.of_kind(Kind.JIT_ARMED) or launch.of_kind(Kind.LATE_JIT))


def tracer_state(launch: LaunchEvidence, trace: Trace) -> str:
    """`seen`, or why the tracer cannot say that a kernel is not late."""
    if launch.record is None or not launch.record.launch.trace:
        return NOT_TRACED
    return SEEN if trace.unseen is None else f"not seen by this source: {trace.unseen}"


def contexts(launch: LaunchEvidence) -> list[int]:
    """Lengths of which a first prompt was sent, in tokens."""
    found = (w.window.context_tokens for w in launch.windows_in(Step.FIRST_PROMPT))
    return [c for c in dict.fromkeys(found) if c is not None]


# -- (a) the engine's monitor -------------------------------------------------------------------------


def monitor_lines(launch: LaunchEvidence) -> Iterator[Sighting]:
    """Lines of the monitor: late by themselves."""
    course = Course(launch)
    for event in launch.of_kind(Kind.LATE_JIT):
        time_ns = launch.clock.at(event.end_offset)
        yield Sighting(
            source=Source.MONITOR,
            what="late JIT",
            kernel=str(event.values["kernel"]),
            phase=course.phase(time_ns),
            late=True,
            place=launch.place(event),
            specialisation=_constexprs(str(event.values.get("detail", ""))),
            requests=course.requests(time_ns, time_ns),
            rank=event.process,
        )


def _constexprs(detail: str) -> str:
    """What `--jit-monitor-verbose` adds, in the ledger's form."""
    found = _CONSTEXPRS.search(detail)
    return " ".join(found[1].split(", ")) if found else ""


# -- (b) real compilations ----------------------------------------------------------------------------


def log_compiles(launch: LaunchEvidence, since: LateFrom) -> Iterator[Sighting]:
    """Lines of the compilers: b12x or sparkinfer with the kernel's name, torch.compile without one."""
    whats = {"miss": COMPILED, "disk-hit": FROM_DISK}
    course = Course(launch)
    for event in launch.log:
        if event.kind is Kind.KERNEL_COMPILE:
            outcome, target = str(event.values["outcome"]), event.values.get("target")
            what, kernel = whats.get(outcome, outcome), None if target is None else str(target)
            held = constants(str(event.values.get("attrs", "")), str(event.values.get("spec", "")))
        elif event.kind in (Kind.CACHE_MISS, Kind.CACHE_HIT):
            what, kernel, held = COMPILED if event.kind is Kind.CACHE_MISS else FROM_DISK, None, ()
            what += " by torch.compile"
        else:
            continue
        time_ns = launch.clock.at(event.end_offset)
        yield Sighting(
            source=Source.COMPILES,
            what=what,
            kernel=kernel,
            phase=course.phase(time_ns),
            late=is_late_line(launch, since, event),
            place=launch.place(event),
            specialisation=text(held),
            requests=course.requests(time_ns, time_ns),
            rank=event.process,
        )


def new_files(launch: LaunchEvidence, since: LateFrom) -> Iterator[Sighting]:
    """Files that appeared or changed in a cache folder, by the time that they were written."""
    course = Course(launch)
    for change, time_ns, place in timed_changes(launch):
        yield Sighting(
            source=Source.COMPILES,
            what=f"{'new' if change.new else 'rewritten'} files in {change.cache}",
            kernel=change.kernel,
            phase=course.phase(time_ns),
            late=since.is_late(time_ns),
            place=place,
            requests=course.requests(time_ns, time_ns),
        )


def timed_changes(launch: LaunchEvidence) -> Iterator[tuple[Change, int | None, str]]:
    """Changes of the cache folders with their time on the launch's clock, and where they are listed.

    A file that was gone again by the end is found in the listings that follow each first prompt.
    """
    listings = launch.listings
    if "start" not in listings:
        return
    known, clock = dict(listings["start"]), WallClock(launch.marks)
    for stage, listed in listings.items():
        for change in changes(known, listed):
            place = f"launches/{launch.folder.id}/caches.json: {stage}: {change.path}"
            yield change, clock.monotonic_ns(change.changed_ns), place
        known |= listed


# -- (c) the tracer -----------------------------------------------------------------------------------


def traced(launch: LaunchEvidence, trace: Trace, since: LateFrom) -> Iterator[Sighting]:
    """What the tracer saw in every process."""
    course, stop = Course(launch), launch.mark_ns("stop asked")
    for event in trace.events:
        taken = event.taken_bytes
        yield Sighting(
            source=Source.TRACER,
            what=_what(event),
            kernel=event.kernel,
            phase=course.phase(event.begin_ns),
            # A compilation that failed has put nothing anywhere.
            late=event.error is None and since.is_late(event.begin_ns) and (stop is None or event.begin_ns < stop),
            place=f"launches/{launch.folder.id}/{event.place}",
            specialisation=text(specialisation(event)),
            requests=course.requests(event.begin_ns, event.end_ns),
            rank=rank_text(event),
            seconds=event.seconds,
            taken_mib=None if taken is None else taken / MIB,
        )


def _what(event: TraceEvent) -> str:
    if event.event == "load":
        return "loaded onto the device"
    if event.event == "autotune":
        return "autotuned"
    if event.error is not None:
        return f"{'load from disk' if event.origin == 'disk' else 'compilation'} ended in {event.error}"
    known = {"compiled": COMPILED, "disk": FROM_DISK, None: "compiled or loaded"}[event.origin]
    return f"{known} as a candidate of a tuning" if event.autotune else known


def launch_mismatches(launch: LaunchEvidence) -> list[Mismatch]:
    """Kernels that this launch's warm-up compiled for other constants than its requests needed."""
    course = Course(launch)
    events = [e for e in read_trace(launch.folder.trace_dir).events if course.phase(e.begin_ns) != STOPPING]
    return mismatches((e, course.serving(e.begin_ns)) for e in events)


# -- first against second -----------------------------------------------------------------------------


def first_second(launch: LaunchEvidence) -> Iterator[FirstSecond]:
    """Time to the first token: of the first prompt of each length, and the median of the prefill passes after it."""
    for context in contexts(launch):
        first = _first_token_s(launch, Step.FIRST_PROMPT, context)
        later = _first_token_s(launch, Step.PREFILL, context)
        yield FirstSecond(
            context_tokens=context,
            first_s=first[0] if first else None,
            second_s=median(later) if later else None,
        )


def _first_token_s(launch: LaunchEvidence, step: Step, context: int) -> list[float]:
    windows = [w for w in launch.windows_of(step, context) if w.unserved is None and w.stalled is None]
    times = (first_token_s(r) for w in windows for r in w.requests)
    return [t for t in times if t is not None]
