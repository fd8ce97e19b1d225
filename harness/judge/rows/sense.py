"""Do the outputs make sense at all? Two arms that both answer nothing agree byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case, Cell
from harness.judge.garbage import garbage
from harness.judge.read import LaunchEvidence
from harness.records import Row
from harness.words import Step, Word

LOOKED_AT = (Step.FIRST_PROMPT, Step.DECODE, Step.IDENTITY)


def rows(case: Case) -> Iterator[Row]:
    """One row per cell."""
    for cell in case.cells:
        yield _row(cell)


def found(launch: LaunchEvidence) -> list[str]:
    """Every output of a launch that is garbage, with its place."""
    return [
        f"{launch.folder.id} {w.window.window} request {r.request}: {fault}"
        for w in launch.windows
        if w.window.step in LOOKED_AT
        for r in w.requests
        if (fault := garbage(r, launch.outputs.get(r.request)))
    ]


def _row(cell: Cell) -> Row:
    counts = [
        sum(len(w.requests) for x in side for w in x.windows if w.window.step in LOOKED_AT) for _, side in cell.arms()
    ]
    control, candidate = ([fault for x in side for fault in found(x)] for _, side in cell.arms())
    if candidate and not control:
        word, reason = Word.FAIL, candidate[0]
    elif control:
        # Nothing can be held against a candidate whose control is broken.
        word, reason = Word.VOID, f"the control's outputs are garbage: {control[0]}"
    elif not all(counts):
        word, reason = Word.NOT_TESTED, "an arm has no output to look at"
    else:
        word, reason = Word.PASS, "none is empty, ends early or repeats one token, and every logprob is a number"
    return cell.row(
        "outputs make sense",
        word,
        reason,
        control=f"{counts[0] - len(control)} of {counts[0]}",
        candidate=f"{counts[1] - len(candidate)} of {counts[1]}",
        unit="outputs",
        sources=tuple(f"launches/{x.folder.id}/outputs.jsonl" for _, side in cell.arms() for x in side),
    )
