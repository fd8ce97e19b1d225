"""One escalation: is a mode's session inconclusive after its first look, and did it go on by that rule?

The pairs of the second look stand in the plan from the start, so nobody picks them. Each look has the
smaller error (`interval.alpha`), and the first one counts before Holm: other lanes may still be running.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.evidence.bundle import Bundle, read_record
from harness.judge.case import Case, decided_plan, read_case
from harness.judge.judgement import is_inconclusive
from harness.records import Plan, Row
from harness.records.statistics import Look
from harness.words import Word


def first_look(bundle: Bundle, mode: str) -> Look:
    """Judge the first pairs of a mode: its primary metrics, each alone.

    Raises:
        BundleError: the evidence cannot be read.
    """
    plan: Plan = decided_plan(bundle)
    mine = tuple(x for x in plan.launches if x.mode == mode and x.look == 1 and not x.trace)
    case = read_case(bundle, plan.model_copy(update={"launches": mine}))
    open_ = tuple(_inconclusive(case))
    return Look(mode=mode, goes_on=bool(open_), inconclusive=open_)


def _inconclusive(case: Case) -> Iterator[str]:
    for key, judged in case.paired.items():
        if judged.tested is not None and judged.tested.primary and is_inconclusive(judged.tested):
            yield " ".join(str(part) for part in key if part is not None)


def rows(case: Case) -> Iterator[Row]:
    """Void where a session went on, or stopped, against its own rule."""
    if case.plan.looks == 1:
        return
    planned = case.bundle.plan()
    for mode in dict.fromkeys(x.mode for x in planned.launches if x.look == 2):
        file = case.bundle.look_file(mode)
        reserve = [x.id for x in planned.launches if x.mode == mode and x.look == 2]
        ran = [i for i in reserve if case.bundle.launch(i).record_file.is_file()]
        found = first_look(case.bundle, mode)
        word, reason = Word.PASS, _reason(found, len(reserve))
        if not file.is_file():
            word, reason = Word.NOT_TESTED, "the session ended before its first look"
        elif read_record(file, Look) != found:
            word, reason = Word.VOID, f"{file.name} does not say what the evidence of the first look says: {reason}"
        if ran and not found.goes_on:
            word, reason = Word.VOID, f"{ran[0]} ran although the first look was conclusive"
        yield Row(
            name="second look",
            mode=mode,
            control=f"{len(ran)} of {len(reserve)} launches",
            word=word,
            reason=reason,
            sources=("plan.json", f"looks/{mode}.json"),
        )


def _reason(look: Look, reserve: int) -> str:
    if not look.goes_on:
        return "not needed: no primary metric was inconclusive after the first pairs"
    return f"{reserve} launches more, since inconclusive after the first pairs: {', '.join(look.inconclusive)}"
