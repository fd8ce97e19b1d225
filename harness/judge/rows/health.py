"""Requests, counts, errors while serving, and the users' own checks."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case, Cell
from harness.judge.read import LaunchEvidence
from harness.observe.vllm_log import Kind
from harness.records import Row
from harness.words import Arm, Word


def rows(case: Case) -> Iterator[Row]:
    """One row each per cell for requests, counts and errors; then the checks that did not pass."""
    for cell in case.cells:
        yield _requests(cell)
    for cell in case.cells:
        yield _counts(cell)
    for cell in case.cells:
        yield _errors(cell)
    for cell in case.cells:
        yield from _checks(cell)


def _requests(cell: Cell) -> Row:
    """Every request full length: a hard invariant of the candidate."""
    found = {arm: [(x, w) for x in side for w in x.windows] for arm, side in cell.arms()}
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


def _counts(cell: Cell) -> Row:
    """The server's counters vouch for the client's counts, or the window's figures are void."""
    sides = [[(x, w) for x in side for w in x.windows if not w.unserved] for _, side in cell.arms()]
    faults = [f"{x.folder.id} {w.window.window}: {w.miscounted}" for side in sides for x, w in side if w.miscounted]
    agreeing = [f"{sum(not w.miscounted for _, w in side)} of {len(side)}" for side in sides]
    if faults:
        word, reason = Word.VOID, faults[0]
    elif not all(sides):
        word, reason = Word.NOT_TESTED, "an arm has no window"
    else:
        word, reason = (
            Word.PASS,
            "client, usage and counters agree; no prefix-cache hit, no foreign request, no preemption",
        )
    return cell.row(
        "counts agree",
        word,
        reason,
        control=agreeing[0],
        candidate=agreeing[1],
        unit="windows",
        sources=tuple(f"launches/{x.folder.id}/windows.jsonl" for _, side in cell.arms() for x in side),
    )


def _errors(cell: Cell) -> Row:
    found = [[e for x in side for e in x.of_kind(Kind.ERROR) if x.while_serving(e)] for _, side in cell.arms()]
    if not any(x.ready_ns for _, side in cell.arms() for x in side):
        return cell.row("errors while serving", Word.NOT_TESTED, "no launch became ready")
    sources = tuple(
        x.place(e) for _, side in cell.arms() for x in side for e in x.of_kind(Kind.ERROR) if x.while_serving(e)
    )[:20]
    if found[1] and not found[0]:
        word, reason = Word.FAIL, f"only in the candidate: {found[1][0].text[:200]}"
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
        (c.name, c.context_tokens): c.message.split("\n")[0] for x in side for c in x.checks if c.outcome == "failed"
    }
