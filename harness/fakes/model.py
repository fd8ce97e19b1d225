"""What the forged model answers, step by step; pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from zlib import crc32

from harness.errors import ConfigError
from harness.forge.arithmetic import MIN_PROMPT_TOKENS, Rule
from harness.forge.recipe import Recipe
from harness.forge.truth import load_rule

NEARLY_ONE = 0.9921875
"""Weight of a near tie's runner-up, as `harness.forge.tensors` writes it (not imported: it needs numpy)."""


@dataclass(frozen=True)
class Step:
    """One engine step of one request: the tokens that it delivered, and the draft that it verified."""

    tokens: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0
    sequence: int = 0
    """Which of a request's outputs it belongs to."""


@dataclass(frozen=True)
class Model:
    """A forged model without its weights."""

    rule: Rule
    hidden: int
    tie: tuple[int, int] | None
    """(token, runner-up) whose logits nearly tie."""

    @property
    def vocab(self) -> int:
        """Number of token ids."""
        return len(self.rule.successor)

    def output(self, prompt_ids: Sequence[int], length: int, diverge_at: int | None = None) -> tuple[int, ...]:
        """`length` greedy tokens; from index `diverge_at` on, those of a model that slipped once."""
        # Real vLLM serves a prompt of one token too; only its first draft is undefined.
        context = prompt_ids if len(prompt_ids) >= MIN_PROMPT_TOKENS else (*prompt_ids, *prompt_ids)
        right = self.rule.expected(context, length).output_ids
        if diverge_at is None or diverge_at >= length:
            return right
        return self._slipped(right, diverge_at, (right[diverge_at] + 1) % self.vocab)

    def with_tie_broken(self, prompt_ids: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        """The output with its first near tie won by the other token; as it is where none is met."""
        if self.tie is not None:
            for place, (previous, token) in enumerate(pairwise((prompt_ids[-1], *output))):
                if previous == self.tie[0] and token != self.tie[1]:
                    return self._slipped(output, place, self.tie[1])
        return tuple(output)

    def _slipped(self, right: Sequence[int], place: int, slip: int) -> tuple[int, ...]:
        rest = len(right) - place - 1
        tail = self.rule.expected((slip, slip), rest).output_ids if rest else ()
        return (*right[:place], slip, *tail)

    def steps(self, output_ids: Sequence[int], draft_tokens: int) -> tuple[Step, ...]:
        """How the engine delivers an output: the prefill's token, then one or two tokens a step."""
        steps = [Step(tuple(output_ids[:1]))] if output_ids else []
        delivered = 1
        while delivered < len(output_ids):
            accepted = int(draft_tokens > 0 and output_ids[delivered - 1] not in self.rule.wrong_drafts)
            tokens = tuple(output_ids[delivered : delivered + 1 + accepted])  # the last may be trimmed
            steps.append(Step(tokens, draft_tokens, accepted))
            delivered += 1 + accepted
        return tuple(steps)

    def top_logprobs(self, previous: int, token: int, count: int) -> list[tuple[int, float]]:
        """The `count` best tokens after `previous` (at least the one taken), best first."""
        runner_up = None
        if self.tie is not None and previous == self.tie[0]:
            runner_up = self.tie[1] if token != self.tie[1] else self.rule.successor[previous]
        tied = runner_up is not None
        best = math.sqrt(self.hidden)  # a one-hot after RMS norm
        second = best * NEARLY_ONE if tied else 0.0
        total = math.log(math.exp(best) + math.exp(second) + self.vocab - 2)
        others = [runner_up] if runner_up is not None else []
        others += [t for t in range(min(self.vocab, count + 2)) if t not in (token, *others)]
        logits = [best, second] + [0.0] * len(others)
        return [(t, z - total) for t, z in zip([token, *others], logits, strict=False)][: max(1, count)]

    def prompt_logprobs(self, prompt_ids: Sequence[int], count: int) -> list[dict[int, tuple[float, int]] | None]:
        """Per prompt token: (logprob, rank) of the token itself and of the `count` best; None for the first."""
        found: list[dict[int, tuple[float, int]] | None] = [None]
        for previous, token in pairwise(prompt_ids):
            best = self.rule.successor[previous]
            ranked = {t: (value, rank) for rank, (t, value) in enumerate(self.top_logprobs(previous, best, 2), 1)}
            second = list(ranked.values())[-1][0]
            own = ranked.get(token, (second, self.vocab))
            found.append({token: own} | dict(list(ranked.items())[:count]))
        return found


def load_model(directory: Path) -> Model:
    """The model of a folder that `forge` wrote.

    Raises:
        ConfigError: it is none.
    """
    rule = load_rule(directory)
    if rule is None:
        raise ConfigError(f"fakes: {directory} holds no truth.json; the fake answers only for forged models")
    recipe = Recipe(**json.loads((directory / "truth.json").read_text("utf-8"))["recipe"])
    return Model(rule, recipe.hidden, recipe.tie)


def words(tokens: Sequence[int], *, first: bool) -> list[str]:
    """Text of each token: `w7`, with a space in front unless it opens the text."""
    return [f"w{t}" if first and i == 0 else f" w{t}" for i, t in enumerate(tokens)]


def read_words(text: str, vocab: int, salt: str = "") -> list[int]:
    """Token ids of a text. An unknown word has an id by its hash: the fake has a tokenizer that knows words."""
    ids = []
    for word in text.split():
        digits = word.removeprefix("w")
        known = word.startswith("w") and digits.isascii() and digits.isdigit() and int(digits) < vocab
        ids.append(int(digits) if known else crc32(f"{salt}{word}".encode()) % vocab)
    return ids
