"""Physical memory of the GPUs by phase: the least over ranks, the gate, and what a first prompt took and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from harness.judge.case import Case, Cell, completed
from harness.judge.read import LaunchEvidence
from harness.observe.memory import NOTHING, FreeFigures, free_figures
from harness.records import Row
from harness.words import Arm, Word

Pick = Callable[[FreeFigures], float | None]


def figures(launch: LaunchEvidence) -> Mapping[str, FreeFigures]:
    """Free memory by phase, per GPU of the lane; a GPU whose memory could not be read has none."""
    return {uuid: free_figures(gpu.free, launch.moments) for uuid, gpu in launch.gpu.gpus.items() if gpu.free.times_ns}


def per_gpu(launch: LaunchEvidence, pick: Pick) -> list[float] | None:
    """One figure of every GPU of the lane, in its order; None where one of them has none."""
    values = [pick(found) for found in figures(launch).values()]
    known = [v for v in values if v is not None]
    watched = launch.gpu.watch.facts if launch.gpu.watch else ()
    return known if known and len(known) == len(watched) else None


def kept_mib(launch: LaunchEvidence, context_tokens: int) -> float | None:
    """Physical memory that the first prompt of a length took and did not give back: the most over ranks, MiB."""
    kept = _kept_per_gpu(launch, context_tokens)
    return None if kept is None else max(kept)


def _kept_per_gpu(launch: LaunchEvidence, context_tokens: int) -> list[float] | None:
    return per_gpu(launch, lambda f: f.prompts.get(context_tokens, NOTHING).kept)


def lowest_mib(launch: LaunchEvidence) -> float | None:
    """Lowest free memory of the whole launch: the least over ranks, MiB."""
    lowest = per_gpu(launch, lambda f: f.lowest)
    return None if lowest is None else min(lowest)


def rows(case: Case) -> Iterator[Row]:
    """Shown per cell; the lowest free memory of the candidate is gated. Nothing for a profile of the CPU."""
    if not case.plan.profile.host.gpus:
        return
    for cell in case.cells:
        yield _row(cell, "GPU memory used before start", used_before, BEFORE, most=True)
        yield _shown(cell, "residency", lambda f: f.residency, RESIDENCY, most=True)
        yield _shown(cell, "free at idle", lambda f: f.idle, "after readiness, before anything else was asked")
        for c in case.contexts:
            yield _shown(
                cell,
                "lowest free in first prompt",
                lambda f, c=c: f.prompts.get(c, NOTHING).lowest,  # type: ignore[misc]
                "from the prompt's begin to the first sample after its end",
                context_tokens=c,
            )
            yield _shown(
                cell,
                "memory taken by first prompt",
                lambda f, c=c: f.prompts.get(c, NOTHING).taken,  # type: ignore[misc]
                "free before it, less the lowest free in it",
                context_tokens=c,
                most=True,
            )
            yield _kept(case, cell, c)
        yield _gate(case, cell)
        yield _shown(cell, "free at the end", lambda f: f.end, "before the server was asked to stop")
        yield _shown(cell, "free after exit", lambda f: f.after, "after the server's end and the wait for its memory")


BEFORE = "in use by the driver, a desktop or others before the server was started"
RESIDENCY = "what the idle server holds, less what was in use before it was started (a desktop, the driver)"


def used_before(launch: LaunchEvidence) -> list[float] | None:
    """Memory in use that is not the server's, per GPU."""
    before = launch.gpu.watch.before if launch.gpu.watch else ()
    used = [state.used_bytes / (1 << 20) for state in before if state.used_bytes is not None]
    return used if used and len(used) == len(before) else None


def _shown(
    cell: Cell,
    name: str,
    pick: Pick,
    told: str,
    *,
    context_tokens: int | None = None,
    most: bool = False,
) -> Row:
    return _row(cell, name, lambda x: per_gpu(x, pick), told, context_tokens=context_tokens, most=most)


def _row(
    cell: Cell,
    name: str,
    read: Callable[[LaunchEvidence], list[float] | None],
    told: str,
    *,
    context_tokens: int | None = None,
    most: bool = False,
) -> Row:
    """A figure without a gate: per launch, the rank that is worst off, and the range over all of them."""
    sides = {arm: [read(x) for x in side] for arm, side in cell.arms()}
    has = any(v is not None for side in sides.values() for v in side)
    return cell.row(
        name,
        Word.NOT_TESTED,
        f"{told}; no gate{_blind_spot(cell)}" if has else _missing(cell),
        context_tokens=context_tokens,
        control=worst_and_range(sides[Arm.CONTROL], most=most),
        candidate=worst_and_range(sides[Arm.CANDIDATE], most=most),
        unit="MiB/rank",
        sources=_sources(cell),
    )


def _kept(case: Case, cell: Cell, context_tokens: int) -> Row:
    """What a first prompt took for good: KV sizing did not know of it, whoever took it, and whether a line says so."""
    most = case.plan.profile.gates.kept_mib_warn
    of_prompt = {
        arm: [(x, _kept_per_gpu(x, context_tokens)) for x in side if completed(x)] for arm, side in cell.arms()
    }
    known = {arm: [(x, v) for x, v in side if v is not None] for arm, side in of_prompt.items()}
    several = len({len(v) for side in known.values() for _, v in side}) > 1
    if several or any(not known[arm] or len(known[arm]) < len(of_prompt[arm]) for arm in known):
        word, reason = Word.NOT_TESTED, _missing(cell)
    else:
        usual = [max(0.0, *of_rank) for of_rank in zip(*(v for _, v in known[Arm.CONTROL]), strict=True)]
        more = [(v[gpu] - usual[gpu], gpu, x) for x, v in known[Arm.CANDIDATE] for gpu in range(len(usual))]
        excess, gpu, launch = max(more, key=lambda found: found[0])
        if excess > most:
            where = f"{launch.folder.id}{_gpu(gpu, len(usual))}"
            beyond = f"{excess:,.0f} MiB more than in the control, {where}"
            word, told = Word.WARN, f"taken late and not given back: {beyond}"
        else:
            word, told = Word.PASS, f"at most {most:g} MiB more than in the control on every rank"
        reason = f"{told}; free before it, less free after it{_blind_spot(cell)}"
    sides = {arm: [v for _, v in side] for arm, side in of_prompt.items()}
    return cell.row(
        "memory kept by first prompt",
        word,
        reason,
        context_tokens=context_tokens,
        control=worst_and_range(sides[Arm.CONTROL], most=True),
        candidate=worst_and_range(sides[Arm.CANDIDATE], most=True),
        unit="MiB/rank",
        sources=_sources(cell),
    )


def _gate(case: Case, cell: Cell) -> Row:
    """Lowest free memory of all: absolute for the candidate, since it is what keeps the next prompt from OOM."""
    gates = case.plan.profile.gates
    sides = {arm: [per_gpu(x, lambda f: f.lowest) for x in side] for arm, side in cell.arms()}
    judged = [(x, v) for x, v in zip(cell.candidate, sides[Arm.CANDIDATE], strict=True) if completed(x)]
    missing = [x for x, v in judged if v is None]
    known = [(min(v), x) for x, v in judged if v is not None]
    if not known or missing:
        word, reason = Word.NOT_TESTED, _missing(cell)
    else:
        lowest, launch = min(known, key=lambda pair: pair[0])
        where = f"{lowest:,.0f} MiB in {launch.folder.id}, {_step_of_lowest(launch)}{_gpu_of_lowest(launch)}"
        if lowest < gates.free_mib_fail:
            word, reason = Word.FAIL, f"below {gates.free_mib_fail:g} MiB: {where}"
        elif lowest < gates.free_mib_warn:
            word, reason = Word.WARN, f"below {gates.free_mib_warn:g} MiB: {where}"
        else:
            word, reason = Word.PASS, f"at least {gates.free_mib_warn:g} MiB on every rank: {where}"
        reason += _blind_spot(cell)
    return cell.row(
        "lowest free",
        word,
        reason,
        control=worst_and_range(sides[Arm.CONTROL], most=False),
        candidate=worst_and_range(sides[Arm.CANDIDATE], most=False),
        unit="MiB/rank",
        sources=_sources(cell),
    )


def _step_of_lowest(launch: LaunchEvidence) -> str:
    found = min((f for f in figures(launch).values() if f.lowest is not None), key=lambda f: f.lowest or 0.0)
    if launch.ready_ns is not None and found.lowest_ns is not None and found.lowest_ns < launch.ready_ns:
        return "while starting"
    return launch.step_at(found.lowest_ns)


def _gpu_of_lowest(launch: LaunchEvidence) -> str:
    """`, GPU 2`: its place in the lane, where there are several."""
    lowest = [f.lowest for f in figures(launch).values()]
    known = [v for v in lowest if v is not None]
    return _gpu(lowest.index(min(known)), len(known))


def _gpu(place: int, of: int) -> str:
    return f", GPU {place}" if of > 1 else ""


def worst_and_range(values: Sequence[Sequence[float] | None], *, most: bool, decimals: int = 0) -> str | None:
    """`12,345`, of several ranks `12,345 (12,345-12,400)`: the worst one, then their range; launches by slashes."""
    if all(v is None for v in values):
        return None
    return " / ".join("-" if v is None else _ranks(v, most, decimals) for v in values)


def _ranks(values: Sequence[float], most: bool, decimals: int) -> str:
    low, high = (f"{v:,.{decimals}f}" for v in (min(values), max(values)))
    worst = high if most else low
    return worst if len(values) == 1 else f"{worst} ({low}-{high})"


def _blind_spot(cell: Cell) -> str:
    """What is shorter than this was not seen."""
    samplings = [x.gpu.watch.sampling for _, side in cell.arms() for x in side if x.gpu.watch and x.gpu.watch.sampling]
    periods = [s.achieved_period_ms for s in samplings if s.achieved_period_ms is not None]
    gaps = [s.worst_gap_ms for s in samplings if s.worst_gap_ms is not None]
    if not periods or not gaps:
        return ""
    return f"; read every {max(periods):.0f} ms, at worst {max(gaps):.0f} ms: what was shorter is not seen"


def _missing(cell: Cell) -> str:
    """Why there is no figure."""
    for _, side in cell.arms():
        for launch in side:
            watch = launch.gpu.watch
            if any(f.mig for f in watch.facts) if watch else False:
                return f"{launch.folder.id}: MIG is on, and the memory of a GPU as a whole cannot be told"
            if why := launch.gpu.unreadable("memory"):
                return f"{launch.folder.id}: not readable: {why}"
            if watch and watch.fault:
                return f"{launch.folder.id}: the GPUs were not watched: {watch.fault}"
    return "an arm has no sample of this: the step did not run, or the launch did not begin"


def _sources(cell: Cell) -> tuple[str, ...]:
    return tuple(f"launches/{x.folder.id}/gpu.parquet" for _, side in cell.arms() for x in side if x.gpu.gpus)
