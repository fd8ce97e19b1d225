"""What each claim of the candidate's stack came to. `late_jit_removed` is judged where late kernels are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from harness.config.claims import (
    AnyClaim,
    ColdStartMaxChange,
    FreeMibMin,
    FreeMibMinChange,
    KvTokensMinChange,
    ThroughputMinChange,
)
from harness.judge.case import Case, Cell, both, shown
from harness.judge.family import Figure
from harness.judge.rows import gpu_memory, kv, speed, startup
from harness.records import Row
from harness.words import Cache, Claimed

NO_GPU = "the free memory of a GPU was not sampled in both arms"


@dataclass(frozen=True)
class Finding:
    """What a claim came to in one cell."""

    where: str
    outcome: Claimed
    why: str
    control: str | None = None
    candidate: str | None = None
    sources: tuple[str, ...] = ()


def rows(case: Case, lowest: Figure = gpu_memory.lowest_mib) -> Iterator[Row]:
    """One row per claim, over every cell that it speaks of: refuted anywhere is refuted."""
    for claim in case.plan.candidate.claims:
        found = _findings(case, claim, lowest)
        if found is not None:
            unit = {FreeMibMin: "MiB", FreeMibMinChange: "MiB", KvTokensMinChange: "tokens", ColdStartMaxChange: "s"}
            yield _row(claim, found, unit.get(type(claim), ""))


def _findings(case: Case, claim: AnyClaim, lowest: Figure) -> list[Finding] | None:
    """One per cell; None for a claim that is judged elsewhere."""
    match claim:
        case KvTokensMinChange():
            return [_kv(claim, cell) for cell in case.cells]
        case FreeMibMin():
            return [_free(claim, cell, lowest) for cell in case.cells]
        case FreeMibMinChange():
            return [_free_change(claim, cell, lowest) for cell in case.cells]
        case ColdStartMaxChange():
            margin = case.plan.profile.gates.startup_pct
            return [_cold_start(claim, cell, margin) for cell in case.cells if cell.cache is Cache.COLD]
        case ThroughputMinChange():
            contexts = [c for c in case.contexts if claim.context_tokens in (None, c)]
            warm = [cell for cell in case.cells if cell.cache is Cache.WARM]
            return [_throughput(case, claim, cell, context) for cell in warm for context in contexts]
        case _:
            return None


def _kv(claim: KvTokensMinChange, cell: Cell) -> Finding:
    pairs = kv.compared(cell)
    if isinstance(pairs, str):
        return Finding(_where(cell), Claimed.NOT_SHOWN, pairs)
    control, candidate = min(pairs, key=lambda p: p[1] - p[0])
    outcome = Claimed.HELD if all(kv.within(claim, a, b) for a, b in pairs) else Claimed.REFUTED
    change = f"{candidate - control:+,} tokens ({(candidate - control) / control * 100:+.3f} %)"
    why = f"{change}, declared at least {kv.bound_text(claim)}"
    return Finding(_where(cell), outcome, why, f"{control:,}", f"{candidate:,}", kv.sources(cell))


def _free(claim: FreeMibMin, cell: Cell, lowest: Figure) -> Finding:
    """An absolute bound: the control's figure stands beside it and decides nothing."""
    control, candidate = cell.values(lowest)
    known = [v for v in candidate if v is not None]
    finding = partial(_memory, cell, control, candidate)
    if len(known) < len(candidate) or not known:
        return finding(Claimed.NOT_SHOWN, "the free memory of a GPU was not sampled in every launch of the candidate")
    outcome = Claimed.HELD if min(known) >= claim.mib else Claimed.REFUTED
    return finding(outcome, f"lowest free {min(known):,.0f} MiB, declared at least {claim.mib:,.0f}")


def _free_change(claim: FreeMibMinChange, cell: Cell, lowest: Figure) -> Finding:
    control, candidate = cell.values(lowest)
    finding = partial(_memory, cell, control, candidate)
    changes = [b - a for a, b in zip(*both(control, candidate), strict=True)]
    if len(changes) < len(control) or not changes:
        return finding(Claimed.NOT_SHOWN, NO_GPU)
    outcome = Claimed.HELD if min(changes) >= claim.change_mib else Claimed.REFUTED
    return finding(outcome, f"lowest free {min(changes):+,.0f} MiB, declared at least {claim.change_mib:+,.0f}")


def _memory(
    cell: Cell, control: list[float | None], candidate: list[float | None], outcome: Claimed, why: str
) -> Finding:
    form = "{:,.0f}"
    return Finding(
        _where(cell), outcome, why, shown(control, form), shown(candidate, form), _files(cell, "gpu.parquet")
    )


def _cold_start(claim: ColdStartMaxChange, cell: Cell, margin_pct: float) -> Finding:
    """One pair has no spread: it shows the claim where the bound is cleared by the margin that start-up has anyway."""
    control, candidate = cell.timed(startup.start_s)
    ours, theirs = both(control, candidate)
    place = partial(
        Finding,
        _where(cell),
        control=shown(control),
        candidate=shown(candidate),
        sources=_files(cell, "timeline.jsonl"),
    )
    if not ours or not cell.same_cache_state:
        why = "the arms started from different cache states" if ours else "no pair of cold starts"
        return place(outcome=Claimed.NOT_SHOWN, why=why)
    seconds = claim.change_s is not None
    changes = [b - a if seconds else (b / a - 1) * 100 for a, b in zip(ours, theirs, strict=True)]
    bound = claim.change_s if claim.change_s is not None else claim.change_pct
    assert bound is not None
    unit = "s" if seconds else "%"
    mean = sum(changes) / len(changes)
    if len(changes) == 1:
        room = margin_pct / 100 * ours[0] if seconds else margin_pct
        how = f"one pair, so the margin of {margin_pct:g} % must lie between"
    else:
        room = _half(changes)
        how = f"90 % interval {mean - room:+.1f} to {mean + room:+.1f} {unit}, {len(changes)} pairs"
    why = f"{mean:+.1f} {unit}, declared at most {bound:+g} {unit} ({how})"
    return place(outcome=_bounded(bound - mean, room), why=why)


def _half(values: list[float]) -> float:
    import numpy as np  # noqa: PLC0415

    from harness.judge.stats.interval import ALPHA, half_width  # noqa: PLC0415

    sd = np.std(np.asarray(values), ddof=1, keepdims=True)
    return float(half_width(sd, np.array([len(values) - 1.0]), len(values), ALPHA)[0])


def _throughput(case: Case, claim: ThroughputMinChange, cell: Cell, context: int) -> Finding:
    """The whole interval beyond the bound shows it, one way or the other."""
    speculates = bool(case.draft_tokens(cell.mode))
    steps = speed.STEPS if speculates else speed.DECODE  # without speculation every token is a step
    name = {"prefill": speed.PREFILL, "decode": speed.DECODE, "steps": steps}[claim.metric]
    judged = case.paired.get((cell.mode, cell.warmup, cell.cache, name, context))
    place = partial(Finding, f"{_where(cell)} {context}", sources=_files(cell, "requests.jsonl"))
    if judged is None or judged.tested is None:
        return place(outcome=Claimed.NOT_SHOWN, why=judged.reason if judged else f"no pair with a figure of {name}")
    t = judged.tested
    why = (
        f"{name} {t.change_pct:+.1f} %, {t.confidence_pct:g} % interval {t.low_pct:+.1f} to {t.high_pct:+.1f} %, "
        f"declared at least {claim.change_pct:+g} %, {t.pairs} pairs"
    )
    outcome = Claimed.HELD if t.low_pct >= claim.change_pct else Claimed.NOT_SHOWN
    return place(outcome=Claimed.REFUTED if t.high_pct < claim.change_pct else outcome, why=why)


def _bounded(distance: float, room: float) -> Claimed:
    """Held or refuted where the bound is further off than the room that the figure needs."""
    if abs(distance) < room:
        return Claimed.NOT_SHOWN
    return Claimed.HELD if distance >= 0 else Claimed.REFUTED


def _where(cell: Cell) -> str:
    return f"{cell.mode} {cell.warmup} {cell.cache_label}"


def _files(cell: Cell, name: str) -> tuple[str, ...]:
    return tuple(f"launches/{x.folder.id}/{name}" for _, side in cell.arms() for x in side)


def _row(claim: AnyClaim, findings: list[Finding], unit: str) -> Row:
    deciding: list[Finding] = []
    outcome = Claimed.NOT_SHOWN
    for one in (Claimed.REFUTED, Claimed.NOT_SHOWN, Claimed.HELD):
        if deciding := [f for f in findings if f.outcome is one]:
            outcome = one
            break
    told = "; ".join(f"{f.where}: {f.why}" for f in deciding) or "the session has no cell that could show it"
    others = ", ".join(f"{f.where} {f.outcome}" for f in findings if f.outcome is not outcome)
    return Row(
        name=f"claim {claim.type}",
        control=_side(deciding, lambda f: f.control),
        candidate=_side(deciding, lambda f: f.candidate),
        unit=unit,
        word=outcome.word,
        reason=f"{outcome}: {told}{f' (beside {others})' if others else ''}",
        sources=tuple(dict.fromkeys(s for f in findings for s in f.sources)),
    )


def _side(findings: list[Finding], pick: Callable[[Finding], str | None]) -> str | None:
    texts = [text for f in findings if (text := pick(f)) is not None]
    return "; ".join(dict.fromkeys(texts)) or None
