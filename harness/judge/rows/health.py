"""Requests, counts, errors while serving, and the users' own checks."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.judge.case import Case, Cell, completed, not_begun
from harness.judge.read import LaunchEvidence
from harness.judge.voids import clock_jump
from harness.observe.log import Kind
from harness.records import Row
from harness.words import Arm, Step, Word

NUMBER = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+")
"""What differs between two prints of the same error: addresses, request ids, counts."""

TIMED = (Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE)
"""Steps whose windows give speeds."""
PROBING = (Step.FOLLOW_UP, Step.REQUEST_KINDS, Step.PROBES)
"""Steps in which the arms may be asked differently: after a server died of one kind, the next is not asked."""


def rows(case: Case) -> Iterator[Row]:
    """One row each per cell for requests, counts and errors; then the checks that did not pass."""
    for cell in case.cells:
        yield _requests(cell)
    for cell in case.cells:
        yield _counts(cell)
    for cell in case.cells:
        yield _client(cell)
    for cell in case.cells:
        yield _clocks(cell)
    for cell in case.cells:
        yield _errors(cell)
    for cell in case.cells:
        yield from _checks(cell)


def _requests(cell: Cell) -> Row:
    """Every request full length: a hard invariant of the candidate."""
    # What a server did not serve because its engine was taken away is no fault of its own.
    found = {
        arm: [(x, w) for x in side if not not_begun(x) for w in x.windows if w.window.step is not Step.REQUEST_KINDS]
        for arm, side in cell.arms()
    }
    bad = {
        arm: [f"{x.folder.id} {w.window.window}: {w.unserved}" for x, w in pairs if w.unserved]
        for arm, pairs in found.items()
    }
    totals = {arm: sum(len(w.requests) for _, w in pairs) for arm, pairs in found.items()}
    served = {arm: sum(r.complete for _, w in pairs for r in w.requests) for arm, pairs in found.items()}
    if bad[Arm.CONTROL]:
        word, reason = Word.VOID, f"the control did not serve in full: {bad[Arm.CONTROL][0]}"
    elif bad[Arm.CANDIDATE]:
        word, reason = Word.FAIL, bad[Arm.CANDIDATE][0]
    elif not all(totals.values()):
        word, reason = Word.NOT_TESTED, "an arm was asked nothing"
    elif difference := _difference(cell):
        word, reason = Word.VOID, f"the arms were not asked the same: {difference}"
    else:
        word, reason = Word.PASS, "status 200, every asked token, counted so by the server"
    return cell.row(
        "requests served in full",
        word,
        reason,
        control=f"{served[Arm.CONTROL]} of {totals[Arm.CONTROL]}",
        candidate=f"{served[Arm.CANDIDATE]} of {totals[Arm.CANDIDATE]}",
        unit="requests",
        sources=tuple(f"launches/{x.folder.id}/requests.jsonl" for _, side in cell.arms() for x in side),
    )


def _difference(cell: Cell) -> str | None:
    """What only one launch of a pair was asked, where both ran their course; probes may differ between arms."""
    for pair in zip(cell.control, cell.candidate, strict=True):
        if not all(map(completed, pair)):
            continue
        ours, theirs = (
            Counter(
                (w.window.window, r.index, r.prompt_sha256, r.asked_tokens)
                for w in x.windows
                if w.window.step not in PROBING
                for r in w.requests
            )
            for x in pair
        )
        for one, other, launch in ((ours, theirs, pair[0]), (theirs, ours, pair[1])):
            if alone := sorted(one - other):
                return f"request {alone[0][1]} of {alone[0][0]} is as it is in {launch.folder.id} only"
    return None


def _counts(cell: Cell) -> Row:
    """The server's counters vouch for the client's counts, or the window's figures are void."""
    sides = [[(x, w) for x in side for w in x.windows if not w.unserved] for _, side in cell.arms()]
    return _without_fault(
        cell,
        "counts agree",
        [[w.miscounted and f"{x.folder.id} {w.window.window}: {w.miscounted}" for x, w in side] for side in sides],
        Word.VOID,
        nothing="an arm has no window",
        good="client, usage and counters agree; no prefix-cache hit, no foreign request, no preemption",
        unit="windows",
        sources=tuple(f"launches/{x.folder.id}/windows.jsonl" for _, side in cell.arms() for x in side),
    )


def client_cores(launch: LaunchEvidence) -> float | None:
    """What the session's process used in the windows of a speed, the log's reader and all, in cores: their median."""
    shares = [
        w.window.client.cpu_ns / (w.window.end_ns - w.window.begin_ns)
        for w in launch.windows
        if w.window.step in TIMED and w.window.client is not None and w.window.end_ns > w.window.begin_ns
    ]
    return statistics.median(shares) if shares else None


def _client(cell: Cell) -> Row:
    """Times that the client took late are not the server's; their rates are left out, and that is said."""
    sides = [[(x, w) for x in side for w in x.windows if w.window.step in TIMED] for _, side in cell.arms()]
    return _without_fault(
        cell,
        "client kept up",
        [[w.stalled and f"{x.folder.id} {w.window.window}: {w.stalled}" for x, w in side] for side in sides],
        Word.WARN,
        then="; no rate is taken from it",
        nothing="an arm has no window of a speed",
        good="at most half a core, never 5 ms late, no burst, in every window of a speed",
        unit="windows",
        sources=tuple(f"launches/{x.folder.id}/requests.jsonl" for _, side in cell.arms() for x in side),
    )


def _clocks(cell: Cell) -> Row:
    """A clock that was set, or a machine that slept: times of that launch are not what they seem."""
    sides = [[x for x in side if x.marks] for _, side in cell.arms()]
    return _without_fault(
        cell,
        "clocks kept pace",
        [[clock_jump(x) for x in side] for side in sides],
        Word.VOID,
        then="; no time of that launch is used",
        nothing="an arm has no timeline",
        good="wall clock and monotonic clock kept pace in every launch",
        unit="launches",
        sources=tuple(f"launches/{x.folder.id}/timeline.jsonl" for side in sides for x in side),
    )


def _without_fault(
    cell: Cell,
    name: str,
    sides: Sequence[Sequence[str | None]],
    word: Word,
    *,
    then: str = "",
    nothing: str,
    good: str,
    unit: str,
    sources: tuple[str, ...],
) -> Row:
    """A row that counts, per arm, the windows or launches that nothing is held against; one fault gives it the word.

    `sides` tells what is held against each; the reason is the first fault and what follows from it, that an arm has
    nothing to look at, or that all are good.
    """
    faults = [fault for side in sides for fault in side if fault]
    if faults:
        reason = f"{faults[0]}{then}"
    elif not all(sides):
        word, reason = Word.NOT_TESTED, nothing
    else:
        word, reason = Word.PASS, good
    counts = [f"{sum(not fault for fault in side)} of {len(side)}" for side in sides]
    return cell.row(name, word, reason, control=counts[0], candidate=counts[1], unit=unit, sources=sources)


def _errors(cell: Cell) -> Row:
    """Lines of a kind that the control does not print as well; numbers and addresses make no kind."""
    found = [[e for x in side for e in x.of_kind(Kind.ERROR) if x.while_serving(e)] for _, side in cell.arms()]
    if not all(any(x.ready_ns is not None for x in side) for _, side in cell.arms()):
        return cell.row("errors while serving", Word.NOT_TESTED, "an arm has no launch that became ready")
    sources = tuple(
        x.place(e) for _, side in cell.arms() for x in side for e in x.of_kind(Kind.ERROR) if x.while_serving(e)
    )[:20]
    known = {NUMBER.sub("#", e.text) for e in found[0]}
    new = [e for e in found[1] if NUMBER.sub("#", e.text) not in known]
    if new:
        word, reason = Word.FAIL, f"only in the candidate: {new[0].text[:200]}"
    elif found[0]:
        word, reason = Word.WARN, f"in the control: {found[0][0].text[:200]}"
    else:
        word, reason = Word.PASS, "no error line between readiness and the stop"
    counts = [str(len(side)) for side in found]
    return cell.row(
        "errors while serving", word, reason, control=counts[0], candidate=counts[1], unit="lines", sources=sources
    )


def _checks(cell: Cell) -> Iterator[Row]:
    """A check that fails in the candidate alone is a fail; what fails in the control was there before."""
    failed = {arm: _failed(side) for arm, side in cell.arms()}
    for name, context in sorted(failed[Arm.CONTROL].keys() | failed[Arm.CANDIDATE].keys(), key=str):
        messages = {arm: failed[arm].get((name, context)) for arm in Arm}
        alone = messages[Arm.CONTROL] is None
        yield cell.row(
            f"check {name}",
            Word.FAIL if alone else Word.NOTE,
            (messages[Arm.CANDIDATE] or "failed in the control only: not the candidate's doing")
            if alone or messages[Arm.CANDIDATE] is None
            else "failed in the control too: not the candidate's doing",
            context_tokens=context,
            control="failed" if messages[Arm.CONTROL] is not None else "passed or not run",
            candidate="failed" if messages[Arm.CANDIDATE] is not None else "passed or not run",
            sources=tuple(f"launches/{x.folder.id}/checks.jsonl" for _, side in cell.arms() for x in side),
        )


def _failed(side: tuple[LaunchEvidence, ...]) -> dict[tuple[str, int | None], str]:
    return {
        (c.name, c.context_tokens): c.message.split("\n")[0]
        for x in side
        if not not_begun(x)  # no server was there to be checked
        for c in x.checks
        if c.outcome == "failed"
    }
