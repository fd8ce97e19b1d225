"""What the tracer saw: late kernels, also those that no monitor named, and kernels warmed up for other constants."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case, Cell
from harness.judge.ledger import ARMED, COMPILED, FROM_DISK, SEEN, launch_mismatches
from harness.judge.ranks import named_with_ranks, ranks
from harness.judge.read import LaunchEvidence
from harness.observe.jit.ledger import LedgerLine, Source
from harness.observe.jit.names import is_kernel
from harness.records import Row
from harness.words import Word

LATE, MISMATCH = "late JIT (tracer)", "specialisation mismatch"
MISSED = "late JIT, missed by the monitor"
NO_TRACE = "the plan has no trace launch ([plan] trace = false)"


def rows(case: Case) -> Iterator[Row]:
    """Per mode: late kernels, those that the monitor missed where there are any, then mismatches."""
    for cell in case.traced:
        yield _late(case, cell)
        yield from _missed(case, cell)
        yield _mismatch(case, cell)
    if not case.traced:
        for name in (LATE, MISMATCH):
            yield Row(name=name, word=Word.NOT_TESTED, reason=NO_TRACE)


def _late(case: Case, cell: Cell) -> Row:
    """Kernels that are late in the candidate and not in the control."""
    if (untold := _untold(case, cell, LATE)) is not None:
        return untold
    kernels = [sorted({k for x in side for k in _ledger_kernels(case, x)}) for _, side in cell.arms()]
    new = sorted(set(kernels[1]) - set(kernels[0]))
    sources = tuple(
        line.place
        for _, side in cell.arms()
        for x in side
        for line in case.ledgers[x.folder.id].late(Source.TRACER)
        if line.kernel in new or not new
    )
    seen = [
        (line.kernel, rank)
        for x in cell.candidate
        for line in case.ledgers[x.folder.id].late(Source.TRACER)
        if line.kernel is not None
        for rank in line.ranks
    ]
    named = named_with_ranks(new, seen, max(len(ranks(x).names) for x in cell.candidate))
    reason = f"new against control: {named}" if new else "no kernel is late that is not late in the control"
    word, reason = cell.against_control(Word.FAIL if new else Word.PASS, reason)
    texts = [", ".join(found) or "none" for found in kernels]
    return cell.row(LATE, word, reason, control=texts[0], candidate=texts[1], sources=sources)


def _ledger_kernels(case: Case, launch: LaunchEvidence) -> list[str]:
    return case.ledgers[launch.folder.id].late_kernels(Source.TRACER)


def _missed(case: Case, cell: Cell) -> Iterator[Row]:
    """Where an armed monitor is silent about a late kernel, launches without a tracer show nothing of it."""
    sides = [[(x, line) for x in side for line in _unnamed(case, x)] for _, side in cell.arms()]
    if not any(sides):
        return
    names = [{str(line.kernel) for _, line in found} for found in sides]
    texts = [", ".join(sorted(found)) or "none" for found in names]
    silent = "it was armed and is silent about what the tracer saw; a launch that is not traced shows nothing of it"
    reason = f"{', '.join(sorted(names[0] | names[1]))}: {silent}"
    sources = tuple(line.place for found in sides for _, line in found)
    sources += tuple(f"launches/{x}/server.log" for x in dict.fromkeys(x.folder.id for s in sides for x, _ in s))
    yield cell.row(MISSED, Word.NOTE, reason, control=texts[0], candidate=texts[1], sources=sources)


def _unnamed(case: Case, launch: LaunchEvidence) -> Iterator[LedgerLine]:
    ledger = case.ledgers.get(launch.folder.id)
    if ledger is None or ledger.monitor != ARMED:
        return
    named = ledger.late_kernels(Source.MONITOR)
    for line in ledger.late(Source.TRACER):
        kernel = line.kernel
        if kernel is None or line.what not in (COMPILED, FROM_DISK):
            continue
        if not any(is_kernel(name, kernel) or is_kernel(kernel, name) for name in named):
            yield line


def _mismatch(case: Case, cell: Cell) -> Row:
    """Mismatches that the control does not have."""
    if (untold := _untold(case, cell, MISMATCH)) is not None:
        return untold
    control, candidate = ([(x, m) for x in side for m in launch_mismatches(x)] for _, side in cell.arms())
    known = {(m.kernel, served) for _, m in control for served in m.served}
    new = [(x, m) for x, m in candidate if any((m.kernel, served) not in known for served in m.served)]
    texts = ["; ".join(str(m) for _, m in found) or "none" for found in (control, candidate)]
    sources = tuple(f"launches/{x.folder.id}/{place}" for x, m in (new or control + candidate) for place in m.places)
    reason = "; ".join(str(m) for _, m in new)
    reason = reason or ("none that the control does not have" if candidate else "warm-up covered what serving used")
    word, reason = cell.against_control(Word.FAIL if new else Word.PASS, reason)
    return cell.row(MISMATCH, word, reason, control=texts[0], candidate=texts[1], sources=sources)


def _untold(case: Case, cell: Cell, name: str) -> Row | None:
    """The row where the tracer of an arm cannot tell, or None where both can."""
    every = [x for _, side in cell.arms() for x in side]
    unready = [x.folder.id for x in every if x.record is None or x.ready_ns is None]
    if unready or not (cell.control and cell.candidate):
        return cell.row(name, Word.NOT_TESTED, f"the trace launch did not become ready: {', '.join(unready)}")
    states = [[case.ledgers[x.folder.id].tracer for x in side] for _, side in cell.arms()]
    blind = [[s for s in side if s != SEEN] for side in states]
    texts = [side[0] if side else SEEN for side in blind]
    sources = tuple(f"launches/{x.folder.id}/trace" for x in every)
    if all(blind):
        return cell.row(name, Word.NOT_TESTED, blind[1][0], control=texts[0], candidate=texts[1], sources=sources)
    if any(blind):
        arm, told = ("control", blind[0]) if blind[0] else ("candidate", blind[1])
        reason = f"the arms cannot be compared: {arm} {told[0]}"
        return cell.row(name, Word.VOID, reason, control=texts[0], candidate=texts[1], sources=sources)
    return None
