"""Prefill and decode rates. Under MTP the engine's speed is steps/s; tokens/s is that times luck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from harness.judge.case import Case, Cell, absent, both, shown
from harness.judge.family import Figure, Metric
from harness.judge.judgement import Judgement
from harness.judge.rates import (
    Decode,
    decode_pass,
    first_token_s,
    inter_chunk_gap_ms,
    median,
    prefill_rate,
    tokens_per_step,
)
from harness.judge.read import LaunchEvidence
from harness.judge.window import prompt_class
from harness.records import Row
from harness.words import Cache, Step, Word

COLD = "cold-cache cells are judged on start-up, KV tokens and JIT only"
FIRST_PROMPT, PREFILL, DECODE, STEPS, PER_STEP = "first prompt", "prefill", "decode", "decode steps", "tokens per step"
"""Names of rows."""


def prefill(launch: LaunchEvidence, context: int) -> float | None:
    """Median prefill rate of the launch's passes, tokens/s; None where a pass has a fault."""
    return median(
        [
            None if w.fault or w.stalled else prefill_rate(r)
            for w in launch.windows_of(Step.PREFILL, context)
            for r in w.requests
        ]
    )


def first_prompt_s(launch: LaunchEvidence, context: int) -> float | None:
    """Time to the first token of the first prompt of this length, seconds."""
    windows = launch.windows_of(Step.FIRST_PROMPT, context)
    usable = windows and windows[0].requests and not windows[0].fault and not windows[0].stalled
    return first_token_s(windows[0].requests[0]) if usable else None


def decode(launch: LaunchEvidence, context: int, figure: Callable[[Decode], float]) -> float | None:
    """Median of a decode figure over the launch's passes."""
    passes = [decode_pass(w) for w in launch.windows_of(Step.DECODE, context)]
    return median([None if p is None else figure(p) for p in passes])


def tokens_per_s(launch: LaunchEvidence, context: int) -> float | None:
    """Median decode rate, tokens/s."""
    return decode(launch, context, lambda d: d.tokens_per_s)


def steps_per_s(launch: LaunchEvidence, context: int) -> float | None:
    """Median rate of verify steps: the engine's speed with drafter luck taken out."""
    return decode(launch, context, lambda d: d.steps_per_s)


def delivered_per_step(launch: LaunchEvidence, context: int) -> float | None:
    """Median of delivered tokens per verify step."""
    return median([tokens_per_step(w) for w in launch.windows_of(Step.DECODE, context)])


def metrics(case: Case, cell: Cell) -> Iterator[Metric]:
    """What pairs of launches of a warm cell are compared by; cold cells are judged on start-up, KV and JIT only."""
    if cell.cache is Cache.COLD:
        return
    gates, speculates = case.plan.profile.gates, bool(case.draft_tokens(cell.mode))
    for context in case.contexts:
        first, rate = partial(first_prompt_s, context=context), partial(prefill, context=context)
        yield Metric(FIRST_PROMPT, context, first, gates.startup_pct, more_is_better=False, gated=False)
        yield Metric(PREFILL, context, rate, gates.throughput_pct, more_is_better=True)
        tokens, steps = partial(tokens_per_s, context=context), partial(steps_per_s, context=context)
        yield Metric(DECODE, context, tokens, gates.throughput_pct, more_is_better=True, gated=not speculates)
        if speculates:
            yield Metric(STEPS, context, steps, gates.steps_pct, more_is_better=True)
            per_step = partial(delivered_per_step, context=context)
            yield Metric(PER_STEP, context, per_step, gates.steps_pct, more_is_better=True, gated=False)


def rows(case: Case) -> Iterator[Row]:
    """Prefill, then decode, per context and cell."""
    for context in case.contexts:
        for cell in case.cells:
            yield figure_row(case, cell, (FIRST_PROMPT, context), "s", partial(first_prompt_s, context=context))
            rate = partial(prefill, context=context)
            yield figure_row(case, cell, (PREFILL, context), "tok/s", rate, gated=True)
    for context in case.contexts:
        for cell in case.cells:
            yield from _decode(case, cell, context)


def _decode(case: Case, cell: Cell, context: int) -> Iterator[Row]:
    def gap(launch: LaunchEvidence) -> float | None:
        return median([inter_chunk_gap_ms(w) for w in launch.windows_of(Step.DECODE, context)])

    tokens, steps = partial(tokens_per_s, context=context), partial(steps_per_s, context=context)
    gap_row = figure_row(case, cell, ("inter-chunk gap p99", context), "ms", gap)
    if not case.draft_tokens(cell.mode):
        yield figure_row(case, cell, (DECODE, context), "tok/s", tokens, gated=True)
        yield gap_row
        return
    prompts = f", {prompt_class(w for side in cell.windows(Step.DECODE, context) for w in side)}"
    yield figure_row(case, cell, (STEPS, context), "steps/s", steps, gated=True, beside=prompts)
    per_step = partial(delivered_per_step, context=context)
    note = _decomposition(case, cell, context)
    yield figure_row(case, cell, (DECODE, context), "tok/s", tokens, note=note, beside=prompts)
    yield figure_row(case, cell, (PER_STEP, context), "tok/step", per_step, beside=prompts)
    yield gap_row


def figure_row(
    case: Case,
    cell: Cell,
    what: tuple[str, int],
    unit: str,
    figure: Figure,
    *,
    gated: bool = False,
    note: str = "",
    beside: str = "",
) -> Row:
    """A row of one figure per launch, with what its pairs came to; a cold cell says so where it would be `gated`."""
    name, context = what
    control, candidate = cell.timed(figure)
    judged = case.paired.get((cell.mode, cell.warmup, cell.cache, name, context))
    if not both(control, candidate)[0]:
        judged = Judgement(Word.NOT_TESTED, "; ".join(filter(None, (absent(control, candidate), note))))
    elif note:
        judged = Judgement(Word.NOT_TESTED, note, judged.tested if judged else None)
    elif judged is None:
        judged = Judgement(Word.NOT_TESTED, COLD if gated else "shown, not judged")
    form = "{:.3f}" if unit in ("s", "ms", "tok/step", "requests") else "{:,.1f}"
    return cell.row(
        name,
        judged.word,
        judged.reason,
        context_tokens=context,
        control=shown(control, form),
        candidate=shown(candidate, form),
        unit=unit + beside,
        sources=tuple(f"launches/{x.folder.id}/requests.jsonl" for _, side in cell.arms() for x in side),
        tested=judged.tested,
    )


def _decomposition(case: Case, cell: Cell, context: int) -> str:
    """log(tok/s) = log(steps/s) + log(tokens/step): says which of the two a difference comes from."""
    figures: tuple[tuple[str, str, Figure], ...] = (
        ("steps/s", STEPS, partial(steps_per_s, context=context)),
        ("tokens/step", PER_STEP, partial(delivered_per_step, context=context)),
    )
    parts = ", ".join(f"{name} {_change(case, cell, (row, context), figure)}" for name, row, figure in figures)
    return f"not judged under MTP, where it is engine speed times acceptance: {parts}"


def _change(case: Case, cell: Cell, what: tuple[str, int], figure: Figure) -> str:
    """`-3.1% (-3.9% to -2.2%)` where pairs were tested, the bare ratio of one pair."""
    judged = case.paired.get((cell.mode, cell.warmup, cell.cache, *what))
    if judged and (t := judged.tested):
        return f"{t.change_pct:+.1f}% ({t.low_pct:+.1f}% to {t.high_pct:+.1f}%)"
    control, candidate = both(*cell.values(figure))
    return f"{sum(candidate) / sum(control) - 1:+.1%}" if control else "unknown"
