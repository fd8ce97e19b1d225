"""What was asked: ids from the plan's seed, or texts as one tokenizer rendered them for both arms."""

from __future__ import annotations

from collections.abc import Iterator

from harness.client.prompts import PromptKey, prompt_sha256
from harness.client.texts import DEPTHS, needle_prompt_ids, rendered_sha256, text_prompt_ids
from harness.judge.case import Case
from harness.records import FrozenPrompts, RequestRecord, Row
from harness.words import Arm, Step, Word


def rows(case: Case) -> Iterator[Row]:
    """One row where texts were asked; ids follow from the seed alone and need none."""
    if case.plan.profile.course.prompts == "text":
        yield _row(case)


def prompt_of(case: Case, frozen: FrozenPrompts, request: RequestRecord) -> list[int]:
    """A text prompt again, from the frozen ids and the plan's seed."""
    prompt_pass = 0 if request.step is Step.IDENTITY else request.pass_number
    key = PromptKey(case.plan.prompt_seed, request.step, request.context_tokens or 0, prompt_pass, request.index)
    if request.step is Step.NEEDLE:
        place = request.index
        return needle_prompt_ids(key, request.prompt_tokens, frozen.ids, frozen.needles[place], DEPTHS[place])
    return text_prompt_ids(key, request.prompt_tokens, frozen.ids)


def _row(case: Case) -> Row:
    frozen = case.prompts
    own: dict[Arm, dict[str, None]] = {arm: {} for arm in Arm}
    for planned in case.plan.launches:
        record = case.launches[planned.id].record
        if record is not None and record.prompts_sha256:
            own[planned.arm][record.prompts_sha256] = None
    texts = [" / ".join(sha[:12] for sha in own[arm]) or None for arm in Arm]
    if frozen is None:
        word, reason = Word.NOT_TESTED, "no launch came as far as rendering the texts"
    elif fault := _fault(case, frozen):
        word, reason = Word.VOID, fault
    elif any(set(shas) - {rendered_sha256(frozen.ids)} for shas in own.values()):
        word, reason = Word.WARN, f"the arms' tokenizers differ: all were asked the ids that {frozen.launch} rendered"
    else:
        word, reason = Word.PASS, f"{len(frozen.ids)} texts, rendered alike in every launch"
    return Row(
        name="text prompts",
        control=texts[0],
        candidate=texts[1],
        unit="sha256 of the ids",
        word=word,
        reason=reason,
        sources=("prompts.json",),
    )


def _fault(case: Case, frozen: FrozenPrompts) -> str | None:
    """A request whose prompt is not the one that seed and frozen ids give."""
    asked = (
        (launch, request)
        for launch in case.launches.values()
        for window in launch.windows
        for request in window.requests
        if request.prompt_class == "text" and request.prefix_tokens is None
    )
    for launch, request in asked:
        if prompt_sha256(prompt_of(case, frozen, request)) != request.prompt_sha256:
            return f"{launch.folder.id}: the prompt of request {request.request} is not what prompts.json gives"
    return None
