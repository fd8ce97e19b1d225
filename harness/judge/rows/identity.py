"""Byte identity: an arm with itself, the arms with each other, warm-up states, MTP on and off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from harness.judge.case import Case, Cell, completed
from harness.judge.identity import Comparison, Difference, compare
from harness.judge.read import LaunchEvidence
from harness.records import OutputRecord, Row
from harness.words import Arm, Cache, Identity, Step, Word

MEASURED = (Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE)
SHORT = "the control was not served in full, so there is nothing to hold the candidate against"


def rows(case: Case) -> Iterator[Row]:
    """Per cell: identity prompts with their repeat baseline, then every context; then across states."""
    near = case.plan.profile.gates.near_tie_nat
    for cell in case.cells:
        prompts = _prompts(cell, near)
        yield prompts
        for context in case.contexts:
            yield _context(cell, context, near, prompts.word)
    yield from _between_states(case, near)
    yield from _between_modes(case, near)


def outputs(
    launch: LaunchEvidence, step: Step, context_tokens: int | None, pass_number: int | None
) -> list[OutputRecord]:
    """Outputs of a step in the order of their requests, of one pass or of all."""
    return [
        launch.outputs[r.request]
        for w in launch.windows_of(step, context_tokens)
        if pass_number is None or w.window.pass_number == pass_number
        for r in w.requests
        if r.request in launch.outputs
    ]


def _prompts(cell: Cell, near: float) -> Row:
    """The candidate may not be worse than the control with itself (DESIGN 5)."""
    name = "identity, candidate vs control"
    passes = [_passes(side) for _, side in cell.arms()]
    if not any(any(side) for side in passes):
        return cell.row(name, Word.NOT_TESTED, "the identity step did not run")
    if not all(passes):
        missing = Arm.CANDIDATE if passes[0] else Arm.CONTROL
        return cell.row(name, Word.NOT_TESTED, f"no launch of the {missing} came as far as the identity step")
    base = passes[0][0]
    control = _repeat(passes[0], near)
    candidate = _repeat(passes[1], near)
    between = _worst([compare(base, other, near_tie_nat=near) for other in passes[1]])
    texts = [f"with itself: {control.state}", f"with itself: {candidate.state}; vs control: {between.state}"]
    sources = tuple(f"launches/{x.folder.id}/outputs.jsonl" for _, side in cell.arms() for x in side)
    if _short(cell.control, Step.IDENTITY, None):
        word, reason = Word.NOT_TESTED, f"{Identity.NOT_COMPARABLE}: {SHORT}"
    elif control.state is not Identity.IDENTICAL:
        word = Word.VOID if control.state is Identity.NOT_COMPARABLE else Word.NOT_TESTED
        reason = f"{Identity.NOT_COMPARABLE}: the control does not agree with itself ({control.text()})"
    elif candidate.state is not Identity.IDENTICAL:
        word = _word(_worst([candidate, between]).state)
        reason = f"the candidate does not agree with itself, the control does: {candidate.text()}"
    else:
        word, reason = _word(between.state), f"{between.state}: {between.text()}"
        if between.state is Identity.IDENTICAL:
            reason += f", sha256 {base[0].sha256[:12]} (first), {sum(len(o.token_ids) for o in base):,} tokens"
    if between.differing and (again := _asked_again(cell, between.differing[0])):
        reason += f"; {again}"
    return cell.row(name, word, reason, control=texts[0], candidate=texts[1], sources=sources)


def _asked_again(cell: Cell, first: Difference) -> str | None:
    """What the later launch says of the token at which the outputs part, asked for it alone."""
    for arm, side in cell.arms():
        for launch in side:
            for request in (r for w in launch.windows_in(Step.FOLLOW_UP) for r in w.requests):
                output = launch.outputs.get(request.request)
                same = (request.index, request.prefix_tokens) == (first.index, first.token_index)
                if same and output is not None and output.top_logprobs:
                    best = output.top_logprobs[0].items()
                    ranked = sorted(best, key=lambda item: -math.inf if item[1] is None else item[1], reverse=True)
                    shown = ", ".join(f"{t!r} {'no number' if v is None else f'{v:.3f}'}" for t, v in ranked[:2])
                    return f"asked again for that token, the {arm} gives {shown}"
    return None


def _passes(side: tuple[LaunchEvidence, ...]) -> list[list[OutputRecord]]:
    """Both identity passes of each launch; none of a launch that ended before it had made them."""
    passes = [[outputs(x, Step.IDENTITY, None, p) for p in (0, 1)] for x in side]
    return [p for x, both in zip(side, passes, strict=True) if completed(x) or all(both) for p in both]


def _short(side: tuple[LaunchEvidence, ...], step: Step, context_tokens: int | None) -> bool:
    return any(w.unserved for x in side for w in x.windows_of(step, context_tokens))


def _repeat(passes: list[list[OutputRecord]], near: float) -> Comparison:
    """How an arm agrees with itself."""
    return _worst([compare(passes[0], other, near_tie_nat=near) for other in passes[1:]])


def _context(cell: Cell, context: int, near: float, prompts: Word) -> Row:
    """Every output at this context: first prompts, prefill and decode passes.

    Logprobs are not taken here, because that would slow down what is timed. So where outputs differ,
    the identity prompts say whether it may be a near tie, and whether the control is stable at all.
    """
    sides = [[o for x in side for step in MEASURED for o in outputs(x, step, context, None)] for _, side in cell.arms()]
    name = "identity, measured outputs"
    if not any(sides):
        return cell.row(name, Word.NOT_TESTED, "no output at this context", context_tokens=context)
    found = compare(sides[0], sides[1], near_tie_nat=near)
    word = Word.NOT_TESTED if found.state is Identity.NOT_COMPARABLE else _word(found.state)
    reason = f"{found.state}: {found.text()}"
    if found.state is Identity.DIVERGED:
        control = _passes(cell.control)
        if any(_short(cell.control, step, context) for step in MEASURED):
            word, reason = Word.NOT_TESTED, f"{Identity.NOT_COMPARABLE}: {SHORT}"
        elif control and _repeat(control, near).state in (Identity.DIVERGED, Identity.NEAR_TIE):
            word, reason = Word.NOT_TESTED, f"{Identity.NOT_COMPARABLE}: the control does not agree with itself"
        elif prompts is Word.WARN:
            word, reason = Word.WARN, f"{reason}; the identity prompts part at near ties only"
    return cell.row(
        name,
        word,
        reason,
        context_tokens=context,
        control=f"{len(sides[0])} outputs",
        candidate=f"{len(sides[1])} outputs",
        sources=tuple(f"launches/{x.folder.id}/outputs.jsonl" for _, side in cell.arms() for x in side),
    )


def _between_states(case: Case, near: float) -> Iterator[Row]:
    """Warm-up must not change what is answered; compared within each arm and mode."""
    for mode in case.plan.profile.plan.modes:
        cells = [c for c in case.cells if c.mode == mode]
        if len({(c.warmup, c.cache) for c in cells}) < 2:
            continue
        found = {arm: _across(cells, arm, near) for arm in Arm}
        control, candidate = found[Arm.CONTROL], found[Arm.CANDIDATE]
        if Identity.NOT_COMPARABLE in (control.state, candidate.state):
            word = Word.NOT_TESTED
        elif control.state is not Identity.IDENTICAL:
            word = Word.NOTE  # not the candidate's doing
        else:
            word = _word(candidate.state)
        yield _arms_row("identity, between warm-up and cache states", mode, found, word, cells)


def _between_modes(case: Case, near: float) -> Iterator[Row]:
    """MTP on against off: reported, not gated, because verification computes in another shape."""
    first, *others = case.plan.profile.plan.modes
    for mode in others:
        pairs = [
            (a, b)
            for a in case.cells
            for b in case.cells
            if (a.mode, b.mode) == (first, mode) and (a.warmup, a.cache) == (b.warmup, b.cache)
        ]
        if not pairs:
            continue
        a, b = next((p for p in pairs if p[0].cache is Cache.WARM), pairs[0])
        found = {arm: _across((a, b), arm, near) for arm in Arm}
        not_taken = any(c.state is Identity.NOT_COMPARABLE for c in found.values())
        yield _arms_row(
            f"identity, {first} vs {mode} (reported, not gated)",
            None,
            found,
            Word.NOT_TESTED if not_taken else Word.NOTE,
            (a, b),
        )


def _arms_row(name: str, mode: str | None, found: dict[Arm, Comparison], word: Word, cells: Sequence[Cell]) -> Row:
    return Row(
        name=name,
        mode=mode,
        control=str(found[Arm.CONTROL].state),
        candidate=str(found[Arm.CANDIDATE].state),
        word=word,
        reason=f"control: {found[Arm.CONTROL].text()}; candidate: {found[Arm.CANDIDATE].text()}",
        sources=tuple(f"launches/{x.folder.id}/outputs.jsonl" for c in cells for arm in Arm for x in _side(c, arm)[:1]),
    )


def _across(cells: Sequence[Cell], arm: Arm, near: float) -> Comparison:
    """The arm's first outputs of each cell against those of the first cell that has any."""
    sets = [outputs(x, Step.IDENTITY, None, 0) for c in cells for x in _side(c, arm)[:1]]
    taken = [s for s in sets if s]
    if len(taken) < 2:
        return Comparison(Identity.NOT_COMPARABLE, 0, reason="fewer than two launches have outputs to compare")
    return _worst([compare(taken[0], other, near_tie_nat=near) for other in taken[1:]])


def _side(cell: Cell, arm: Arm) -> tuple[LaunchEvidence, ...]:
    return cell.control if arm is Arm.CONTROL else cell.candidate


def _worst(comparisons: list[Comparison]) -> Comparison:
    order = (Identity.NOT_COMPARABLE, Identity.DIVERGED, Identity.NEAR_TIE, Identity.IDENTICAL)
    return min(comparisons, key=lambda c: order.index(c.state))


def _word(state: Identity) -> Word:
    return {
        Identity.IDENTICAL: Word.PASS,
        Identity.NEAR_TIE: Word.WARN,
        Identity.DIVERGED: Word.FAIL,
        Identity.NOT_COMPARABLE: Word.VOID,
    }[state]
