"""What can differ from rank to rank of one launch: each rank by its name, and what each of them shows.

A rank is a worker that the log or its process's title names (`Worker_TP2`). What a rank does not tell is None and
never 0: many lines of vLLM are printed by the first rank alone (notes/vllm.md 1.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.judge.late import is_late_line, late_from
from harness.judge.ledger import SEEN, tracer_state
from harness.judge.read import LaunchEvidence
from harness.judge.samples import ProcessReadings
from harness.observe.jit.trace import TraceEvent, read_trace
from harness.observe.log import Event, Kind
from harness.observe.log.placed import Placed, placed
from harness.observe.log.process import rank_order, titled_rank
from harness.observe.memory import Series
from harness.records import Window
from harness.words import Step

PerRank = Mapping[str, float | None]
"""By rank, in their order; None where that rank does not tell."""

VERBOSE = "--jit-monitor-verbose"
COMPILE_LINES = (Kind.CACHE_MISS, Kind.CACHE_HIT, Kind.KERNEL_COMPILE)
START_UP_LINES = (Kind.LOAD_BEGIN, Kind.MODEL_LOADED, Kind.WEIGHTS, Kind.KV_MEMORY, Kind.MEMORY_FIXED, Kind.GRAPHS)
TIMED = (Step.PREFILL, Step.DECODE)


@dataclass(frozen=True)
class Ranks(Placed):
    """The ranks of a launch, and which process is which."""

    def of_trace(self, event: TraceEvent) -> str | None:
        """The rank whose process the tracer was in; torch's number is the tensor rank where there is no other."""
        if (known := self.by_pid.get(event.pid)) is not None or event.rank is None:
            return known
        # Ranks that share a context or experts are the tensor ranks; those of pipelines and engines count otherwise.
        only_tensor = all(name.startswith("TP") for name in self.names)
        place = f"TP{event.rank}" if only_tensor else f"rank {event.rank}"
        return next((name for name in self.names if name == place or name.startswith(f"{place} ")), None)


def ranks(launch: LaunchEvidence) -> Ranks:
    """Every rank that a line of the log or a process's title names."""
    told = placed(launch.log)
    titles = (name for p in launch.processes if (name := titled_rank(p.name)) is not None)
    return Ranks(tuple(sorted({*told.names, *titles}, key=rank_order)), told.by_pid)


def named_with_ranks(names: Sequence[str], seen: Iterable[tuple[str, str | None]], count: int) -> str:
    """`_k (TP2), _other (TP0, TP1)`: where each was seen; the names alone where there is one rank."""
    where: dict[str, dict[str, None]] = {}
    for name, rank in seen:
        if rank is not None:
            where.setdefault(name, {})[rank] = None
    told = {n: sorted(where.get(n, ()), key=rank_order) for n in names}
    return ", ".join(f"{n} ({', '.join(told[n])})" if count > 1 and told[n] else n for n in names)


def kv_gib(launch: LaunchEvidence, known: Ranks) -> PerRank:
    """Memory that the rank had, or was given, for its KV cache, in GiB: the last line that tells it."""
    found: dict[str, float] = {}
    for event in launch.log:
        if event.kind in (Kind.KV_MEMORY, Kind.MEMORY_FIXED) and (rank := known.of(event)) is not None:
            value = event.values.get("gib", event.values.get("kv_gib"))
            if value is not None:
                found[rank] = float(value)
    return _by_rank(known, found)


def started_s(launch: LaunchEvidence, known: Ranks) -> PerRank:
    """Seconds from the process's start to a line of the start-up.

    Of the kinds that every rank prints it is the one at which they are furthest apart, so that a slow rank shows.
    """
    begin = launch.mark_ns("process started")
    times: dict[Kind, dict[str, float]] = {}
    for event in launch.log:
        rank, time_ns = known.of(event), launch.clock.at(event.end_offset)
        is_start = event.kind in START_UP_LINES and launch.before_ready(event)
        if is_start and rank is not None and time_ns is not None and begin is not None:
            times.setdefault(event.kind, {})[rank] = (time_ns - begin) / 1e9
    whole = [found for found in times.values() if len(found) == len(known.names)]
    return _by_rank(known, max(whole, key=_spread, default={}))


def compile_misses(launch: LaunchEvidence, known: Ranks) -> PerRank:
    """Compilations that the rank's lines name, up to the stop; a rank without any line of a cache tells nothing."""
    return _compiles(launch, known, lambda _: True)


def late_compiles(launch: LaunchEvidence, known: Ranks) -> PerRank:
    """Those of them that came late (DESIGN 2)."""
    since = late_from(launch)
    return _compiles(launch, known, lambda e: is_late_line(launch, since, e))


def late_named(launch: LaunchEvidence, known: Ranks) -> PerRank:
    """Kernels that the engine's monitor names late, by the rank that names them.

    Silence counts as none only of a rank whose monitor is armed, and of others than the first only where
    `--jit-monitor-verbose` is set: without it the first rank alone writes the warnings.
    """
    late, silent = _sets(known, ((known.of(e), str(e.values["kernel"])) for e in launch.of_kind(Kind.LATE_JIT)))
    argv = launch.record.argv if launch.record else ()
    armed = {known.of(e) for e in launch.of_kind(Kind.JIT_ARMED)}
    verbose = any(a == VERBOSE or a.startswith(f"{VERBOSE}=") for a in argv)
    told = {name for n, name in enumerate(known.names) if name in armed and (verbose or n == 0)}
    return _by_rank(known, {r: float(len(k)) for r, k in late.items()} | dict.fromkeys(silent & told, 0.0))


def late_traced(launch: LaunchEvidence, known: Ranks) -> PerRank:
    """Kernels that the tracer saw late, by rank: none only of a rank whose process it was in."""
    trace, since, stop = read_trace(launch.folder.trace_dir), late_from(launch), launch.mark_ns("stop asked")
    if tracer_state(launch, trace) != SEEN:
        return _by_rank(known, {})
    events = [e for e in trace.events if e.error is None and (stop is None or e.begin_ns < stop)]
    late, silent = _sets(known, ((known.of_trace(e), e.kernel) for e in events if since.is_late(e.begin_ns)))
    told = {known.by_pid.get(pid) for pid in trace.processes} | {known.of_trace(e) for e in trace.events}
    return _by_rank(known, {r: float(len(k)) for r, k in late.items()} | {r: 0.0 for r in silent if r in told})


def host_mib(
    launch: LaunchEvidence, known: Ranks, pick: Callable[[Series], float | None], measure: str = "PSS"
) -> PerRank:
    """A figure of the memory of each rank's process on the host, in MiB, by `PSS` or `RSS`.

    By the process's title, else by the pid that the log names, unless a container numbers its own.
    """
    found = {r: pick(p.pss if measure == "PSS" else p.rss) for r, p in _processes(launch, known)}
    return _by_rank(known, found)


def cpu_s(launch: LaunchEvidence, known: Ranks) -> PerRank:
    """CPU time of each rank's process in the prefill and decode passes together, in seconds.

    What it tells, seen on vLLM 0.32.0 CPU with two and four ranks: a rank that is kept from running (it sleeps, is
    stopped, or loses its core to others) has less than the others, since those spin while they wait for it. It has no
    less than in a launch where nothing keeps it: its work is the same, and the others have more. A rank that computes
    more than the others does not show: 15 ms of work added to each of its steps gave both ranks the same. A step that
    is slower on every rank shows as more on every one. Ranks on GPUs were not looked at.
    """
    passes = _passes(launch)
    found: dict[str, float | None] = {}
    for rank, process in _processes(launch, known):
        spent = [process.cpu.spent_s(w.begin_ns, w.end_ns) for w in passes]
        told = [s for s in spent if s is not None]
        if told and len(told) == len(spent):
            found[rank] = sum(told)
    return _by_rank(known, found)


def core_share(launch: LaunchEvidence, known: Ranks) -> PerRank:
    """The same in percent of the passes' own time: 100 is one core, all the time."""
    whole = sum(w.end_ns - w.begin_ns for w in _passes(launch)) / 1e9
    return {r: None if s is None or whole <= 0 else 100 * s / whole for r, s in cpu_s(launch, known).items()}


def _passes(launch: LaunchEvidence) -> list[Window]:
    return [w.window for step in TIMED for w in launch.windows_in(step)]


def _processes(launch: LaunchEvidence, known: Ranks) -> Iterator[tuple[str, ProcessReadings]]:
    """Of each rank the process that is it: a child that a worker forks bears its title, too, and was there later."""
    own = launch.record is None or launch.record.container is None
    found: dict[str, ProcessReadings] = {}
    for process in sorted(launch.processes, key=lambda p: (p.rss.times_ns[:1], p.pid)):
        rank = titled_rank(process.name) or (known.by_pid.get(process.pid) if own else None)
        if rank is not None:
            found.setdefault(rank, process)
    yield from found.items()


def _spread(found: Mapping[str, float]) -> tuple[float, float]:
    return max(found.values()) - min(found.values()), max(found.values())


def _compiles(launch: LaunchEvidence, known: Ranks, counts: Callable[[Event], bool]) -> PerRank:
    stop = launch.mark_ns("stop asked")
    found: dict[str, float] = {}
    for event in launch.log:
        rank, time_ns = known.of(event), launch.clock.at(event.end_offset)
        if event.kind not in COMPILE_LINES or rank is None or (stop and time_ns and time_ns >= stop):
            continue
        missed = event.kind is Kind.CACHE_MISS or event.values.get("outcome") == "miss"
        found[rank] = found.get(rank, 0.0) + float(missed and counts(event))
    return _by_rank(known, found)


def _sets(known: Ranks, seen: Iterable[tuple[str | None, str]]) -> tuple[dict[str, set[str]], set[str]]:
    """Names by rank, and the ranks that have none."""
    found: dict[str, set[str]] = {}
    for rank, name in seen:
        if rank is not None:
            found.setdefault(rank, set()).add(name)
    return found, {name for name in known.names if name not in found}


def _by_rank(known: Ranks, found: Mapping[str, float | None] | Mapping[str, float]) -> PerRank:
    return {name: found.get(name) for name in known.names}
