"""The arguments of a forged model, and the rule that follows from them."""

from __future__ import annotations

import hashlib
import random
from dataclasses import asdict, dataclass
from functools import cached_property

from harness.errors import ConfigError
from harness.forge.arithmetic import Rule

CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Head sizes that vLLM's CPU attention serves; others become ready and die at the first request."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the bytes of a forged checkpoint."""

    layers: int = 1
    hidden: int = 128
    head_size: int = 64
    kv_heads: int = 1
    intermediate: int = 128
    vocab: int | None = None
    """Vocabulary size; the hidden size when None. One-hot embeddings need vocab <= hidden."""
    max_context: int = 40_960
    seed: int = 0
    wrong_drafts: float = 0.3
    """Share of the vocabulary after which the MTP layer drafts a wrong token."""
    changed_successor: bool = False
    """One token's successor differs from that of the same recipe without this."""
    mla: bool = False
    """Multi-head latent attention in DeepSeek-V3's shape; head_size then only says how many heads there are."""
    near_tie: bool = False
    """The special token's two best successors are almost equal; `changed_successor` says which one wins."""

    def __post_init__(self) -> None:
        """Refuse what cannot be built, naming the option that mends it."""
        problems = {
            "--layers must be at least 1": self.layers < 1,
            "--head-size must be positive and divide --hidden": self.head_size < 1 or self.hidden % self.head_size,
            "--kv-heads must divide the number of heads (--hidden / --head-size)": self.kv_heads < 1
            or (self.head_size > 0 and (self.hidden // self.head_size) % self.kv_heads),
            "--intermediate must be at least 1": self.intermediate < 1,
            "--vocab must lie between 8 and --hidden (embeddings are one-hot)": not 8 <= self.vocab_size <= self.hidden,
            "--max-context must be at least 16": self.max_context < 16,
            "--wrong-drafts is a share and must lie in 0 <= x < 1": not 0 <= self.wrong_drafts < 1,
        }
        for message, wrong in problems.items():
            if wrong:
                raise ConfigError(f"forge: {message}; got {self}")

    @property
    def vocab_size(self) -> int:
        """Number of token ids: 0 <= id < vocab_size."""
        return self.hidden if self.vocab is None else self.vocab

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.hidden // self.head_size

    @cached_property
    def cycle(self) -> tuple[int, ...]:
        """Every token once: the order in which an unchanged model walks the vocabulary."""
        tokens = list(range(self.vocab_size))
        self._random("cycle").shuffle(tokens)
        return tuple(tokens)

    @cached_property
    def special_token(self) -> int:
        """The token whose successor `changed_successor` and `near_tie` touch."""
        return self.cycle[self._random("special").randrange(self.vocab_size)]

    @cached_property
    def rule(self) -> Rule:
        """The successor map and the set of wrong drafts."""
        follows = dict(zip(self.cycle, self.cycle[1:] + self.cycle[:1], strict=True))
        if self.changed_successor:
            follows[self.special_token] = self.other_successor
        count = round(self.wrong_drafts * self.vocab_size)
        wrong = self._random("wrong-drafts").sample(range(self.vocab_size), count)
        return Rule(tuple(follows[t] for t in range(self.vocab_size)), frozenset(wrong))

    @property
    def other_successor(self) -> int:
        """The token after the special one's ordinary successor: the answer that the variants give."""
        place = self.cycle.index(self.special_token)
        return self.cycle[(place + 2) % self.vocab_size]

    @property
    def tie(self) -> tuple[int, int] | None:
        """(token, runner-up) whose logits nearly tie, or None."""
        if not self.near_tie:
            return None
        place = self.cycle.index(self.special_token)
        ordinary = self.cycle[(place + 1) % self.vocab_size]
        return self.special_token, ordinary if self.changed_successor else self.other_successor

    def mistaken_for(self, token: int) -> int:
        """The token that the MTP layer takes `token` for: one with another successor."""
        successor = self.rule.successor
        start = self._random(f"mistake-{token}").randrange(self.vocab_size)
        for offset in range(self.vocab_size):
            other = (start + offset) % self.vocab_size
            if successor[other] != successor[token]:
                return other
        raise ConfigError("forge: every token has the same successor")  # unreachable for vocab >= 8

    def arguments(self) -> dict[str, object]:
        """The recipe as JSON, for truth.json."""
        return asdict(self)

    def _random(self, purpose: str) -> random.Random:
        """An own stream per purpose, so that one option never moves another's draw."""
        digest = hashlib.sha256(f"forge/1/{self.seed}/{self.vocab_size}/{purpose}".encode()).digest()
        return random.Random(int.from_bytes(digest))  # noqa: S311  # repeatable, not secret
