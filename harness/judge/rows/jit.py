"""Kernels that were compiled or first loaded late (DESIGN 2), from sources kept apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.judge.case import Case, Cell, not_begun
from harness.judge.late import Course
from harness.judge.ledger import is_armed
from harness.judge.proof import cache_proof, late_compiles, late_files, late_loads
from harness.judge.ranks import named_with_ranks, ranks
from harness.judge.read import LaunchEvidence
from harness.judge.rows.traced import rows as traced_rows
from harness.observe.log import Event, Kind
from harness.records import Row
from harness.words import CacheProof, Word


def rows(case: Case) -> Iterator[Row]:
    """Monitor lines, then real compilations, then what the caches were proven to be, then the tracer."""
    for cell in case.cells:
        yield _monitor(cell)
    for cell in case.cells:
        yield _compiles(cell)
    for cell in case.cells:
        yield _caches(cell)
    yield from traced_rows(case)


def _monitor(cell: Cell) -> Row:
    """Names of late kernels; a launch whose monitor was not armed has none to tell."""
    name = "late JIT (engine's monitor)"
    sides = [[x for x in side if x.ready_ns is not None] for _, side in cell.arms()]
    if not all(sides):
        return cell.row(name, Word.NOT_TESTED, "an arm has no launch that became ready")
    unarmed = [[x.folder.id for x in side if not is_armed(x)] for side in sides]
    kernels = [sorted({str(e.values["kernel"]) for x in side for e in x.of_kind(Kind.LATE_JIT)}) for side in sides]
    sources = tuple(x.place(e) for side in sides for x in side for e in x.of_kind(Kind.LATE_JIT))
    texts = [
        "not armed" if len(off) == len(side) else ", ".join(found) or "none"
        for side, off, found in zip(sides, unarmed, kernels, strict=True)
    ]
    silent = [launch for side in unarmed for launch in side]
    if silent:
        sources += tuple(x.place(e) for side in sides for x in side for e in x.of_kind(Kind.JIT_ARMED)[:1])
        sources += tuple(f"launches/{launch}/server.log" for launch in silent)  # all of it: there is no such line
    if silent and len(silent) < sum(map(len, sides)):
        arms = " in one arm only" if not all(unarmed) and "not armed" in texts else f", but not in {silent[0]}"
        reason = f"the monitor was armed{arms}, so the arms cannot be compared"
        return cell.row(name, Word.VOID, reason, control=texts[0], candidate=texts[1], sources=sources)
    if silent:
        reason = "the engine's monitor was not armed in either arm: that there is no warning proves nothing"
        return cell.row(name, Word.NOT_TESTED, reason, control=texts[0], candidate=texts[1], sources=sources)
    new = sorted(set(kernels[1]) - set(kernels[0]))
    seen = [(str(e.values["kernel"]), ranks(x).of(e)) for x in sides[1] for e in x.of_kind(Kind.LATE_JIT)]
    named = named_with_ranks(new, seen, max(len(ranks(x).names) for x in sides[1]))
    reason = f"new against control: {named}" if new else "no kernel is late that is not late in the control"
    word, reason = cell.against_control(Word.FAIL if new else Word.PASS, reason)
    return cell.row(name, word, reason, control=texts[0], candidate=texts[1], sources=sources)


def _compiles(cell: Cell) -> Row:
    """Compilations that the log names; beside them what was loaded late, and new files in the caches.

    Not every compiler prints a line, and one compilation writes several files, so files only warn.
    """
    name = "late compiles (caches)"
    sides = [[x for x in side if x.ready_ns is not None] for _, side in cell.arms()]
    if not all(sides):
        return cell.row(name, Word.NOT_TESTED, "an arm has no launch that became ready")
    counts = [max(len(late_compiles(x)) for x in side) for side in sides]
    loads = [max(len(late_loads(x)) for x in side) for side in sides]
    files = [max(len(late_files(x)) for x in side) for side in sides]
    texts = [_text(side[0], count, number) for side, count, number in zip(sides, counts, files, strict=True)]
    sources = tuple(x.place(e) for side in sides for x in side for e in (*late_compiles(x), *late_loads(x)))
    sources += tuple(f"launches/{x.folder.id}/caches.json" for side in sides for x in side)
    if not cell.same_cache_state:
        reason = "the arms started from different cache states"
        return cell.row(name, Word.NOT_TESTED, reason, control=texts[0], candidate=texts[1], sources=sources)
    if counts[1] > counts[0]:
        word, reason = Word.FAIL, f"{counts[1] - counts[0]} more than in the control came late"
    elif files[1] > files[0]:
        word, reason = Word.WARN, f"{files[1] - files[0]} more new cache files than in the control"
    elif loads[1] > loads[0]:
        word, reason = Word.WARN, f"{loads[1] - loads[0]} more first loaded late than in the control"
    else:
        word, reason = Word.PASS, "no more than in the control"
    word, reason = cell.against_control(word, reason)
    return cell.row(name, word, reason, control=texts[0], candidate=texts[1], sources=sources)


def _text(launch: LaunchEvidence, count: int, files: int) -> str:
    steps = Counter(_step(launch, e) for e in late_compiles(launch))
    where = f" ({', '.join(f'{n} in {step}' for step, n in steps.items())})" if steps else ""
    return f"{count} compiled{where}, {len(late_loads(launch))} loaded, {files} new files"


def _step(launch: LaunchEvidence, event: Event) -> str:
    return Course(launch).phase(launch.clock.at(event.end_offset))


def _caches(cell: Cell) -> Row:
    proofs = [[cache_proof(x) for x in side if not not_begun(x)] for _, side in cell.arms()]
    texts = ["/".join(dict.fromkeys(p.proof for p in side)) or None for side in proofs]
    every = [p for side in proofs for p in side]
    sources = tuple(s for p in every for s in p.sources)
    if not every:
        return cell.row("cache state", Word.NOT_TESTED, "no launch of this cell was started")
    wanted = CacheProof(cell.cache)
    wrong = [p for p in every if p.proof is not wanted]
    if wrong:
        reason = f"planned {wanted}, proven {wrong[0].proof}: {wrong[0].reason}; not called {wanted}"
        return cell.row("cache state", Word.NOTE, reason, control=texts[0], candidate=texts[1], sources=sources)
    return cell.row("cache state", Word.PASS, every[0].reason, control=texts[0], candidate=texts[1], sources=sources)
