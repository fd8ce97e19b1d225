"""A pair whose measurement is void is run once more, and both stay: was it, and by that rule?

The launches that take a void pair's place stand in the plan from the start. What is void of a pair is
judged over its two launches alone, from the evidence, so that anybody can derive the decision again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.evidence.bundle import Bundle, read_record
from harness.judge.case import Case, completed, read_case
from harness.judge.rows import resolved
from harness.records import Plan, PlannedLaunch, Row
from harness.records.statistics import Rerun
from harness.words import Word

LASTING = frozenset({resolved.NAME, "GPU power limits"})
"""What these rows find void is void the second time too."""


def judge_pair(bundle: Bundle, pair: tuple[PlannedLaunch, PlannedLaunch]) -> Rerun:
    """What is void of a pair. A launch that failed or was cut short is a finding, and no reason to ask again.

    Raises:
        BundleError: the evidence cannot be read.
    """
    from harness.judge.verdict import rows_of  # noqa: PLC0415  # this module's own rows are among its subjects

    plan: Plan = bundle.plan()
    sources = [x for x in plan.launches if x.id in {y.warm_from for y in pair}]
    case = read_case(bundle, plan.model_copy(update={"launches": (*sources, *pair), "reruns": (), "looks": 1}))
    void: tuple[str, ...] = ()
    if all(completed(case.launches[x.id]) for x in pair):
        void = tuple(dict.fromkeys(_texts(case, rows_of(case), pair[0])))
    return Rerun(pair=(pair[0].id, pair[1].id), void=void)


def _texts(case: Case, rows: Iterable[Row], launch: PlannedLaunch) -> Iterator[str]:
    [label] = [
        c.cache_label for c in case.cells if (c.mode, c.warmup, c.cache) == (launch.mode, launch.warmup, launch.cache)
    ]
    for row in rows:
        is_of_the_pair = (row.mode, row.warmup, row.cache) == (launch.mode, launch.warmup, label)
        if row.word is Word.VOID and is_of_the_pair and row.name not in LASTING:
            yield f"{row.name}{f' {row.context_tokens}' if row.context_tokens else ''}: {row.reason}"


def rows(case: Case) -> Iterator[Row]:
    """One row per pair that was run once more; void where that was not by the rule."""
    originals = {x.id: x for x in case.plan.launches}
    for second in case.plan.reruns:
        if second.turn != 2 or second.again_of is None:
            continue
        [first] = [x for x in case.plan.reruns if x.turn == 1 and x.place[0] == second.ordinal]
        ran = [x.id for x in (first, second) if case.bundle.launch(x.id).record_file.is_file()]
        file = case.bundle.rerun_file(second.again_of)
        if not ran and not file.is_file():
            continue
        pair = originals[first.again_of or ""], originals[second.again_of]
        found = judge_pair(case.bundle, pair)
        word, reason = Word.NOTE, f"run once more, both stay, the second is judged; void was {'; '.join(found.void)}"
        if not found.void:
            word, reason = Word.VOID, f"{' and '.join(ran) or file.name}: run once more although the pair was not void"
        elif not file.is_file() or read_record(file, Rerun) != found:
            word, reason = Word.VOID, f"{file.name} does not say what the evidence says: {found.void[0]}"
        yield Row(
            name="voided pair",
            mode=second.mode,
            control=pair[0].id,
            candidate=pair[1].id,
            word=word,
            reason=reason,
            sources=(f"reruns/{second.again_of}.json", *(f"launches/{x}/launch.json" for x in ran)),
        )
