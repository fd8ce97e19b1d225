"""Drafted and accepted tokens, from the server's counters, and against the model's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.client.prompts import PromptKey, prompt_ids, prompt_sha256
from harness.forge.arithmetic import Rule
from harness.judge.case import Case, Cell
from harness.judge.rates import counts_by_prompt
from harness.judge.read import LaunchEvidence
from harness.judge.rows.prompts import prompt_of
from harness.judge.window import WindowEvidence, prompt_class
from harness.records import RequestRecord, Row
from harness.words import Arm, Step, Word

if TYPE_CHECKING:
    from harness.judge.stats.bootstrap import Acceptance

MEASURED = (Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE, Step.IDENTITY)


def rows(case: Case) -> Iterator[Row]:
    """Acceptance per context and for the identity prompts, then the known answers."""
    for cell in case.cells:
        if case.draft_tokens(cell.mode):
            for context in case.contexts:
                yield _acceptance(cell, "decode", Step.DECODE, context)
            yield _acceptance(cell, "identity prompts", Step.IDENTITY, None)
    for cell in case.cells:
        if case.rules:
            yield _known_answers(case, cell)


def _acceptance(cell: Cell, what: str, step: Step, context: int | None) -> Row:
    control, candidate = cell.windows(step, context)
    sums = [_sum(control), _sum(candidate)]
    texts = [None if s is None else f"{s[0]:,}/{s[1]:,} = {s[0] / s[1]:.4f} (MAL {1 + s[0] / s[1]:.3f})" for s in sums]
    sources = tuple(
        f"launches/{launch.folder.id}/metrics/{w.window.scrape_before}..{w.window.scrape_after}"
        for _, side in cell.arms()
        for launch in side
        for w in launch.windows
        if w in control or w in candidate
    )
    name = f"accepted / drafted, {what}"
    tested = _by_prompt(control, candidate)
    word, reason = _judged(sums[0], sums[1], tested, same=_same_outputs(cell, step, context))
    return cell.row(
        name,
        word,
        reason,
        context_tokens=context,
        control=texts[0],
        candidate=texts[1],
        unit=f"tokens, {prompt_class([*control, *candidate])}",
        sources=sources,
    )


def _judged(
    control: tuple[int, int] | None, candidate: tuple[int, int] | None, tested: Acceptance | None, *, same: bool
) -> tuple[Word, str]:
    """A loss of acceptance is the drafter's, and never the engine's speed; with equal outputs it has a name."""
    if control is None or candidate is None:
        return Word.NOT_TESTED, "an arm has no drafts to count: the step did not run, or a window is void"
    rates = [accepted / drafts for accepted, drafts in (control, candidate)]
    if control == candidate:
        return Word.PASS, "counts are equal"
    change = f"acceptance {rates[1] - rates[0]:+.4f}, tokens per step {(1 + rates[1]) / (1 + rates[0]) - 1:+.2%}"
    drift = "; outputs are identical, so this is drafter drift" if same else ""
    if tested is None:
        few = f"{change} (too few prompts for a test){drift}"
        if rates[1] < rates[0]:
            return Word.WARN, f"the drafts are worse, not the engine's speed: {few}"
        return Word.NOTE, f"the drafts differ: {few}"
    low, high = math.expm1(tested.low), math.expm1(tested.high)
    shown = f"{change}; 90 % interval {low:+.2%} to {high:+.2%}, {tested.prompts} prompts resampled{drift}"
    if tested.high < 0:
        return Word.WARN, f"the drafts are worse, not the engine's speed: {shown}"
    if tested.low > 0:
        return Word.NOTE, f"the drafts are better: {shown}"
    return Word.NOTE, f"the drafts differ, and not clearly for the worse: {shown}"


def _by_prompt(control: Sequence[WindowEvidence], candidate: Sequence[WindowEvidence]) -> Acceptance | None:
    """Tokens per step over the same prompts; None where there are too few, or no request's steps are known."""
    ours, theirs = counts_by_prompt(control), counts_by_prompt(candidate)
    if not ours or not theirs or ours == theirs:
        return None
    from harness.judge.stats.bootstrap import acceptance  # noqa: PLC0415  # scipy, only where counts differ

    return acceptance(ours, theirs)


def _same_outputs(cell: Cell, step: Step, context: int | None) -> bool:
    """Every prompt of the step has one output, the same in both arms and in every launch."""
    found: list[dict[str, set[str]]] = []
    for _, side in cell.arms():
        hashes: dict[str, set[str]] = {}
        for launch in side:
            for request in (r for w in launch.windows_of(step, context) for r in w.requests):
                output = launch.outputs.get(request.request)
                hashes.setdefault(request.prompt_sha256, set()).add(output.sha256 if output else "")
        found.append(hashes)
    known = all(len(x) == 1 and "" not in x for hashes in found for x in hashes.values())
    return known and bool(found[0]) and found[0] == found[1]


def _sum(windows: Sequence[WindowEvidence]) -> tuple[int, int] | None:
    """(accepted, drafts) over windows, token-weighted; None where a count is unknown or nothing was drafted."""
    if not windows or any(w.fault for w in windows):
        return None
    accepted = sum(w.counted("accepted") or 0 for w in windows)
    drafts = sum(w.counted("drafts") or 0 for w in windows)
    return (accepted, drafts) if drafts else None


def _known_answers(case: Case, cell: Cell) -> Row:
    """Outputs, drafts and accepted drafts of every measured window against the forged model's rule."""
    name = "known answers"
    texts: list[str | None] = []
    faults: dict[Arm, list[str]] = {}
    exact: list[int] = []
    for arm, side in cell.arms():
        rule = case.rules.get(arm)
        if rule is None:
            texts.append("not a forged model")
            continue
        windows = [(x, w) for x in side for w in x.windows if w.window.step in MEASURED]
        found = [(w, _fault(case, arm, rule, x, w)) for x, w in windows]
        faults[arm] = [f for _, f in found if f]
        good = sum(not (f or w.fault) for w, f in found)  # void counts: only the outputs were held against the rule
        exact.append(good)
        texts.append(f"{good} of {len(windows)} windows exact")
    if faults.get(Arm.CONTROL):
        word, reason = Word.VOID, f"the control is not what its model must be: {faults[Arm.CONTROL][0]}"
    elif faults.get(Arm.CANDIDATE):
        word, reason = Word.FAIL, faults[Arm.CANDIDATE][0]
    elif not all(exact):
        word, reason = Word.NOT_TESTED, "an arm has no window that was measured and is not void"
    else:
        word, reason = Word.PASS, "outputs, drafts and accepted drafts are exactly what each model's rule gives"
    sources = tuple(f"locks/{arm}.truth.json" for arm in case.rules)
    files = ("outputs.jsonl", "windows.jsonl")
    sources += tuple(f"launches/{x.folder.id}/{name}" for _, side in cell.arms() for x in side for name in files)
    return cell.row(name, word, reason, control=texts[0], candidate=texts[1], sources=sources)


def _fault(case: Case, arm: Arm, rule: Rule, launch: LaunchEvidence, window: WindowEvidence) -> str | None:
    where = f"{launch.folder.id} {window.window.window}"
    drafts = accepted = 0
    for request in window.requests:
        if not request.complete:
            return f"{where}: {window.unserved}"
        ids = _prompt(case, request)
        if prompt_sha256(ids) != request.prompt_sha256:
            return f"{where}: prompt of request {request.request} is not the one that the plan's seed gives"
        answer = rule.expected(ids, request.asked_tokens, draft_tokens=1 if window.draft_tokens else 0)
        drafts, accepted = drafts + answer.drafts, accepted + answer.accepted
        output = launch.outputs.get(request.request)
        if output is not None and output.token_ids != answer.output_ids:
            return f"{where}: output of request {request.request} is not what the {arm}'s rule gives"
    if window.miscounted or window.draft_tokens != 1:  # the rule knows one draft token per step
        return None
    if (window.counted("drafts"), window.counted("accepted")) != (drafts, accepted):
        counted = f"{window.counted('accepted')}/{window.counted('drafts')}"
        return f"{where}: accepted/drafted {counted}, the rule gives {accepted}/{drafts}"
    return None


def _prompt(case: Case, request: RequestRecord) -> list[int]:
    """The prompt again, from the plan's seed: evidence cannot be answered by prompts made up later."""
    if request.prompt_class == "text" and case.prompts is not None:
        return prompt_of(case, case.prompts, request)
    below = case.plan.profile.course.prompt_ids_below or min(len(r.successor) for r in case.rules.values())
    prompt_pass = 0 if request.step is Step.IDENTITY else request.pass_number
    key = PromptKey(case.plan.prompt_seed, request.step, request.context_tokens or 0, prompt_pass, request.index)
    return prompt_ids(key, request.prompt_tokens, below)
