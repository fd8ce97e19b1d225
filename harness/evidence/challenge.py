"""Re-derive every prompt that was sent, from the plan's seed and the reviewer's challenge.

The challenge is a text that nobody could know before the reviewer gave it, so prompts that follow from it were
not asked before. Of text prompts the seed decides which texts stand in which order and where the needles are;
the texts themselves are the harness's own (`texts_sha256`), as the server's tokenizer rendered them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.client.prompts import DEFAULT_IDS_BELOW, PromptKey, prompt_ids, prompt_sha256
from harness.client.texts import DEPTHS, needle_prompt_ids, text_prompt_ids, texts_sha256
from harness.errors import BundleError
from harness.evidence.bundle import Bundle, LaunchDir, read_lines
from harness.evidence.mismatch import Mismatch
from harness.forge.truth import load_rule_file
from harness.records import FrozenPrompts, OutputRecord, Plan, RequestRecord
from harness.words import Arm, Step

MOST_TOKENS = 1 << 22
"""A bundle may be a stranger's: no prompt is longer, and none is made that would not fit into memory."""


def check_challenge(root: Path) -> list[Mismatch]:
    """Every request whose prompt is not what seed and challenge give, by its file and number.

    Raises:
        BundleError: the plan or a launch's records cannot be read.
    """
    bundle = Bundle(root)
    plan, frozen = bundle.plan(), bundle.prompts()
    seeds = _Seeds(plan, frozen, plan.profile.course.prompt_ids_below or _known_ids(bundle) or DEFAULT_IDS_BELOW)
    found: list[Mismatch] = []
    if plan.challenge != plan.profile.plan.challenge:
        found.append(Mismatch("plan.json", "challenge", plan.challenge, plan.profile.plan.challenge))
    if frozen is not None and frozen.texts_sha256 != texts_sha256():
        found.append(Mismatch("prompts.json", "texts_sha256", frozen.texts_sha256, texts_sha256()))
    for launch in plan.possible:
        found += _of_launch(bundle.launch(launch.id), seeds)
    return found


@dataclass(frozen=True)
class _Seeds:
    """All that prompts follow from."""

    plan: Plan
    frozen: FrozenPrompts | None
    ids_below: int


def _of_launch(folder: LaunchDir, seeds: _Seeds) -> Iterator[Mismatch]:
    answered: Mapping[int, tuple[int, ...]] | None = None
    place = f"launches/{folder.id}/{folder.requests_file.name}"
    for number, request in enumerate(read_lines(folder.requests_file, RequestRecord), 1):
        prefix: tuple[int, ...] = ()
        if request.prefix_tokens is not None:
            answered = _identity_answers(folder) if answered is None else answered
            prefix = answered.get(request.index, ())[: request.prefix_tokens]
        derived = [_sha256(request, seeds, prefix, n) for n in _passes(request)]
        if request.prompt_sha256 not in derived:
            found = derived[0] or "not to be derived"
            yield Mismatch(f"{place}:{number}", "prompt_sha256", request.prompt_sha256, found)


def _passes(request: RequestRecord) -> tuple[int, ...]:
    """Identity repeats the prompts of its first pass, and a check of a user may repeat those of any first one."""
    if request.prefix_tokens is not None or request.step is Step.IDENTITY:
        return (0,)
    return (request.pass_number,) if not request.pass_number else (request.pass_number, 0)


def _sha256(request: RequestRecord, seeds: _Seeds, prefix: tuple[int, ...], prompt_pass: int) -> str | None:
    """Hash of the prompt as it should be; None where the record asks for one that cannot be made."""
    seed = seeds.plan.prompt_seed
    key = PromptKey(seed, request.step, request.context_tokens or 0, prompt_pass, request.index)
    if request.prefix_tokens is not None:
        key = PromptKey(seed, Step.IDENTITY, 0, 0, request.index)
    if not 0 < request.prompt_tokens <= MOST_TOKENS:
        return None
    try:
        return prompt_sha256([*_ids(request, key, request.prompt_tokens - len(prefix), seeds), *prefix])
    except (ValueError, LookupError):
        return None


def _ids(request: RequestRecord, key: PromptKey, tokens: int, seeds: _Seeds) -> list[int]:
    if request.prompt_class != "text":
        return prompt_ids(key, tokens, seeds.ids_below)
    if seeds.frozen is None:
        raise ValueError("text was asked, and prompts.json is missing")
    ids = seeds.frozen.ids
    if request.step is Step.NEEDLE:
        place = request.index
        return needle_prompt_ids(key, tokens, ids, seeds.frozen.needles[place], DEPTHS[place])
    return text_prompt_ids(key, tokens, ids)


def _identity_answers(folder: LaunchDir) -> dict[int, tuple[int, ...]]:
    """Token ids of the first identity pass by prompt: a follow-up's prompt ends with their beginning."""
    places = {
        r.request: r.index
        for r in read_lines(folder.requests_file, RequestRecord)
        if r.step is Step.IDENTITY and r.pass_number == 0
    }
    outputs = read_lines(folder.outputs_file, OutputRecord)
    return {places[o.request]: o.token_ids for o in outputs if o.request in places}


def _known_ids(bundle: Bundle) -> int | None:
    """Bound of the ids that both arms' forged models know; None where no model is forged."""
    try:
        files = [bundle.truth_file(arm) for arm in Arm]
        return min((len(load_rule_file(f).successor) for f in files if f.is_file()), default=None)
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise BundleError(f"{bundle.root}/locks: a model's rule cannot be read: {e}") from None
