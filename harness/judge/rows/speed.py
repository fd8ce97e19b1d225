"""Prefill and decode rates. Under MTP the engine's speed is steps/s; tokens/s is that times luck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from harness.judge.case import Case, Cell, absent, both, shown
from harness.judge.paired import judge_pairs
from harness.judge.rates import (
    Decode,
    decode_pass,
    first_token_s,
    inter_chunk_gap_ms,
    median,
    prefill_rate,
    tokens_per_step,
)
from harness.judge.read import LaunchEvidence, prompt_class
from harness.records import Row
from harness.words import Cache, Step, Word

COLD = "cold-cache cells are judged on start-up, KV tokens and JIT only"
Figure = Callable[[LaunchEvidence], float | None]


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


def rows(case: Case) -> Iterator[Row]:
    """Prefill, then decode, per context and cell."""
    gates = case.plan.profile.gates
    for context in case.contexts:
        for cell in case.cells:
            yield figure_row(cell, "first prompt", context, "s", partial(first_prompt_s, context=context))
            rate = partial(prefill, context=context)
            yield figure_row(cell, "prefill", context, "tok/s", rate, margin_pct=gates.throughput_pct)
    for context in case.contexts:
        for cell in case.cells:
            yield from _decode(cell, context, case.draft_tokens(cell.mode), gates.throughput_pct, gates.steps_pct)


def _decode(cell: Cell, context: int, draft_tokens: int, tokens_pct: float, steps_pct: float) -> Iterator[Row]:
    def of(figure: Callable[[Decode], float]) -> Figure:
        return lambda launch: decode(launch, context, figure)

    def per_step(launch: LaunchEvidence) -> float | None:
        return median([tokens_per_step(w) for w in launch.windows_of(Step.DECODE, context)])

    def gap(launch: LaunchEvidence) -> float | None:
        return median([inter_chunk_gap_ms(w) for w in launch.windows_of(Step.DECODE, context)])

    tokens, steps = of(lambda d: d.tokens_per_s), of(lambda d: d.steps_per_s)
    gap_row = figure_row(cell, "inter-chunk gap p99", context, "ms", gap)
    if not draft_tokens:
        yield figure_row(cell, "decode", context, "tok/s", tokens, margin_pct=tokens_pct)
        yield gap_row
        return
    prompts = f", {prompt_class(w for side in cell.windows(Step.DECODE, context) for w in side)}"
    yield figure_row(cell, "decode steps", context, "steps/s", steps, margin_pct=steps_pct, beside=prompts)
    note = _decomposition(cell, steps, per_step)
    yield figure_row(cell, "decode", context, "tok/s", tokens, note=note, beside=prompts)
    yield figure_row(cell, "tokens per step", context, "tok/step", per_step, beside=prompts)
    yield gap_row


def _decomposition(cell: Cell, steps: Figure, per_step: Figure) -> str:
    """tok/s = steps/s x tokens/step: says which of the two a difference in tok/s comes from."""
    parts = []
    for name, figure in (("steps/s", steps), ("tokens/step", per_step)):
        control, candidate = both(*cell.values(figure))
        parts.append(f"{name} {sum(candidate) / sum(control) - 1:+.1%}" if control else f"{name} unknown")
    return f"not judged under MTP, where it is engine speed times acceptance: {', '.join(parts)}"


def figure_row(
    cell: Cell,
    name: str,
    context: int,
    unit: str,
    figure: Figure,
    *,
    margin_pct: float | None = None,
    note: str = "",
    beside: str = "",
) -> Row:
    """A row of one figure per launch; judged by its pairs where it has a margin."""
    control, candidate = cell.values(lambda launch: None if launch.clock_jump else figure(launch))
    pairs = both(control, candidate)
    if not pairs[0]:
        word, reason = Word.NOT_TESTED, "; ".join(filter(None, (absent(control, candidate), note)))
    elif margin_pct is None:
        word, reason = Word.NOT_TESTED, note or "shown, not judged"
    elif cell.cache is Cache.COLD:
        word, reason = Word.NOT_TESTED, COLD
    else:
        judged = judge_pairs(*pairs, margin_pct=margin_pct, more_is_better=True)
        word, reason = judged.word, judged.reason
    form = "{:.3f}" if unit in ("s", "ms", "tok/step", "requests") else "{:,.1f}"
    return cell.row(
        name,
        word,
        reason,
        context_tokens=context,
        control=shown(control, form),
        candidate=shown(candidate, form),
        unit=unit + beside,
        sources=tuple(f"launches/{x.folder.id}/requests.jsonl" for _, side in cell.arms() for x in side),
    )
