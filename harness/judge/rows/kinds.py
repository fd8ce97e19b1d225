"""Kinds of request: is each served, which kernels does it need late, and how much memory does it take?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.config.kinds import RequestKind
from harness.judge.case import Case, Cell
from harness.judge.kinds import Probe, Taken, memory_samples, monitored, probes, taken
from harness.observe.log import Kind
from harness.observe.memory import Series
from harness.records import Row
from harness.words import Arm, Word

MORE_MIB, MORE_SHARE = 64.0, 0.1
"""More than both of these above the control's peak is worth a note."""

SHOWN = "peak above the last sample before the request / still taken when the next one began; shown, not judged"


def rows(case: Case) -> Iterator[Row]:
    """Per kind and cell: served and late kernels; then the memory."""
    asked = [(cell, [[probes(x) for x in side] for _, side in cell.arms()]) for cell in case.cells]
    for cell, found in asked:
        if not any(map(any, found)):
            yield cell.row("request kinds", Word.NOT_TESTED, "the request-kind probes did not run")
    by_kind = [
        (kind, cell, sides)
        for kind in case.plan.profile.course.kinds
        for cell, found in asked
        if any(sides := [[of[kind.name] for of in side if kind.name in of] for side in found])
    ]
    for kind, cell, sides in by_kind:
        yield _served(cell, kind, *sides)
    samples = {x.folder.id: memory_samples(x) for cell in case.cells for _, side in cell.arms() for x in side}
    for kind, cell, sides in by_kind:
        yield _memory(cell, kind, samples, *sides)


def _served(cell: Cell, kind: RequestKind, control: list[Probe], candidate: list[Probe]) -> Row:
    word, reason = _judged(cell, control, candidate)
    return cell.row(
        f"request kind {kind.name}",
        word,
        reason,
        control=_text(control),
        candidate=_text(candidate),
        unit="late kernels",
        sources=tuple(f"launches/{p.launch.folder.id}/requests.jsonl {p.request.request}" for p in control + candidate),
    )


def _judged(cell: Cell, control: list[Probe], candidate: list[Probe]) -> tuple[Word, str]:
    failed = {
        arm: next((f"{p.launch.folder.id}: {p.failure}" for p in side if p.failure), None)
        for arm, side in ((Arm.CONTROL, control), (Arm.CANDIDATE, candidate))
    }
    if failed[Arm.CONTROL]:
        if failed[Arm.CANDIDATE]:
            return Word.NOTE, f"neither arm serves it: {failed[Arm.CONTROL]}; {failed[Arm.CANDIDATE]}"
        served = "; the candidate does" if candidate else ""
        return Word.NOTE, f"the control does not serve it{served}: {failed[Arm.CONTROL]}"
    if failed[Arm.CANDIDATE]:
        word = Word.FAIL if control else Word.NOT_TESTED
        return word, failed[Arm.CANDIDATE] or ""
    if not control or not candidate:
        return Word.NOT_TESTED, f"only the {Arm.CONTROL if control else Arm.CANDIDATE} was asked"
    if len({monitored(p.launch) for p in control + candidate}) > 1:
        return Word.VOID, "the engine's monitor was armed in some of the launches only, so the arms cannot be compared"
    known = {e.values["kernel"] for x in cell.control for e in x.of_kind(Kind.LATE_JIT)}
    if new := sorted({k for p in candidate for k in p.kernels} - known):
        return Word.FAIL, f"late kernels that are not late in the control: {', '.join(new)}"
    if not monitored(control[0].launch):
        return Word.PASS, "served in full; whether it needs a kernel late is not known, since no monitor was armed"
    return Word.PASS, "served in full; no kernel is late that is not late in the control"


def _text(side: list[Probe]) -> str | None:
    if not side:
        return None
    kernels = sorted({k for p in side for k in p.kernels})
    if not kernels:
        kernels = ["none" if all(monitored(p.launch) for p in side) else "not armed"]
    compiled = max(len(p.compiles) for p in side)
    return ", ".join(kernels) + (f"; {compiled} compiled" if compiled else "")


def _memory(
    cell: Cell, kind: RequestKind, samples: dict[str, tuple[Series, ...]], control: list[Probe], candidate: list[Probe]
) -> Row:
    sides = [[taken(samples[p.launch.folder.id], p) for p in side] for side in (control, candidate)]
    word, reason = Word.NOT_TESTED, SHOWN
    peaks = [[t.peak_mib for t in side if t is not None] for side in sides]
    if all(peaks):
        ours, theirs = (max(side) for side in peaks)
        if theirs > ours + max(MORE_MIB, MORE_SHARE * ours):
            word, reason = Word.NOTE, f"the candidate takes {theirs - ours:,.0f} MiB more at its peak than the control"
    of_gpus = any(p.launch.gpu.gpus for p in control + candidate)
    file = "gpu.parquet" if of_gpus else "host.parquet"
    return cell.row(
        f"{'GPU' if of_gpus else 'host'} memory, request kind {kind.name}",
        word,
        reason,
        control=_taken_text(sides[0]),
        candidate=_taken_text(sides[1]),
        unit="MiB/rank" if of_gpus else "MiB",
        sources=tuple(f"launches/{p.launch.folder.id}/{file}" for p in control + candidate),
    )


def _taken_text(side: list[Taken | None]) -> str | None:
    known = [t for t in side if t is not None]
    return "; ".join(f"{round(t.peak_mib):+,} / {round(t.kept_mib):+,}" for t in known) or None
