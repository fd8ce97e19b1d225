"""Prompts as token ids: a function of seed, purpose, context, pass and index, and of nothing else.

Ids come from SHAKE-256 rather than from a library's generator, so any machine, in any year, derives
the same prompts from the seed in the plan.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from harness.words import Step

DEFAULT_IDS_BELOW = 1000
"""Prompt ids of models that are not forged: every vocabulary holds these, and none is special-only."""


@dataclass(frozen=True)
class PromptKey:
    """What a prompt is for. Equal keys give equal prompts, in every arm, mode and warm-up state."""

    seed: int
    step: Step
    context_tokens: int
    pass_number: int
    index: int

    def text(self) -> str:
        """The key in the form that is hashed."""
        return f"prompt/1/{self.seed}/{self.step}/{self.context_tokens}/{self.pass_number}/{self.index}"


def prompt_ids(key: PromptKey, tokens: int, below: int) -> list[int]:
    """`tokens` ids, each in 0 <= id < `below`.

    The first block differs between any two keys with overwhelming probability (16 tokens of a
    vocabulary of 128: 2^-112), so the prefix cache never holds a measured prompt.
    """
    if tokens < 1 or below < 1:
        raise ValueError(f"a prompt needs tokens >= 1 and below >= 1, got {tokens} and {below}")
    stream = np.frombuffer(hashlib.shake_256(key.text().encode()).digest(8 * tokens), dtype="<u8")
    ids: list[int] = (stream % below).tolist()
    return ids


def prompt_sha256(ids: list[int]) -> str:
    """SHA-256 over the ids as JSON."""
    return hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()
