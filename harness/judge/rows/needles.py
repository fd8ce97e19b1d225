"""Are facts found in long prompts? Short answers can be right while long contexts are corrupt."""

from __future__ import annotations

from collections.abc import Iterator

from harness.client.texts import DEPTHS, needles
from harness.judge.case import Case, Cell
from harness.records import Row
from harness.words import Step, Word


def rows(case: Case) -> Iterator[Row]:
    """One row per cell where needles were asked for."""
    for cell in case.cells:
        if any(w for _, side in cell.arms() for x in side for w in x.windows_in(Step.NEEDLE)):
            yield _row(case, cell)


def _row(case: Case, cell: Cell) -> Row:
    sides = [_found(case, cell, side) for side in range(2)]
    texts = [f"{sum(side.values())} of {len(side)}" if side else None for side in sides]
    lost = sorted(depth for depth, found in sides[0].items() if found and not sides[1].get(depth, True))
    at = ", ".join(f"{depth:.0%}".replace("%", " %") for depth in lost)
    if not all(sides):
        word, reason = Word.NOT_TESTED, "only one arm was asked"
    elif lost:
        word, reason = Word.FAIL, f"the control finds facts that the candidate does not, at {at} of the prompt"
    elif not any(sides[0].values()):
        word, reason = Word.NOT_TESTED, "the control finds no fact, so the model cannot, or cannot be asked so"
    else:
        word, reason = Word.PASS, "the candidate finds every fact that the control finds"
    launches = [x for _, side in cell.arms() for x in side]
    return cell.row(
        "needles",
        word,
        reason,
        context_tokens=case.plan.profile.course.longest_context,
        control=texts[0],
        candidate=texts[1],
        unit="facts",
        sources=tuple(f"launches/{x.folder.id}/outputs.jsonl" for x in launches),
    )


def _found(case: Case, cell: Cell, side: int) -> dict[float, bool]:
    """By depth: found in every launch that was asked. A request that failed is told elsewhere."""
    answers = [n.answer for n in needles(case.plan.prompt_seed)]
    found: dict[float, bool] = {}
    for launch in (cell.control, cell.candidate)[side]:
        for window in launch.windows_in(Step.NEEDLE):
            for request in window.requests:
                output = launch.outputs.get(request.request)
                if request.complete and output is not None:
                    depth = DEPTHS[request.index]
                    found[depth] = found.get(depth, True) and answers[request.index] in output.text
    return found
