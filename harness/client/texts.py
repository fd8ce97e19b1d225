"""Text prompts: own-written texts of five classes, and exact prompts out of their token ids.

The server's tokenizer renders the texts once per session; from then on only ids are used, which are
part of the bundle. Both arms are asked the same ids, whatever their tokenizers make of the texts.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from harness.client.prompts import PromptKey

DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Where in a long prompt a fact is planted, as a share of it."""

PLACES = ("Alder Mill", "Birch Quarry", "Cedar Chapel", "Dogwood Weir", "Elm Harbour")

Rendered = Mapping[str, Sequence[int]]
"""Token ids of each text by its name."""


@dataclass(frozen=True)
class Text:
    """One text; `kind` is what is being written, which decides how well drafts are accepted."""

    name: str
    kind: str
    text: str


@dataclass(frozen=True)
class Needle:
    """A fact that no model knows, and a question that only it answers."""

    depth: float
    fact: str
    question: str
    answer: str
    """Must stand in the output."""


@cache
def texts() -> tuple[Text, ...]:
    """The texts in their order."""
    found = tomllib.loads((Path(__file__).parent / "texts.toml").read_text("utf-8"))["text"]
    return tuple(Text(**fields) for fields in found)


def texts_sha256() -> str:
    """Hash over the texts, their names and their order."""
    return _sha256([asdict(text) for text in texts()])


def rendered_sha256(rendered: Rendered) -> str:
    """Hash over the ids of all texts."""
    return _sha256({name: list(ids) for name, ids in rendered.items()})


def needles(seed: int) -> tuple[Needle, ...]:
    """One needle per depth; the answers follow from the seed, so no model can have learned them."""
    found = []
    for number, (depth, place) in enumerate(zip(DEPTHS, PLACES, strict=True)):
        digest = hashlib.sha256(f"needle/1/{seed}/{number}".encode()).digest()
        answer = str(100_000 + int.from_bytes(digest[:8], "big") % 900_000)
        fact = f"\nThe access code of the archive at {place} is {answer}.\n"
        question = (
            f"\n\nQuestion: What is the access code of the archive at {place}?"
            f"\nAnswer: The access code of the archive at {place} is"
        )
        found.append(Needle(depth, fact, question, answer))
    return tuple(found)


def text_prompt_ids(key: PromptKey, tokens: int, rendered: Rendered) -> list[int]:
    """`tokens` ids that end in the middle of one text, which the server is to write on.

    Which text that is follows from the key's index, so a set of prompts has every class; a prompt
    longer than the text begins with others, in an order that follows from the key.
    """
    if tokens < 1 or not rendered or not all(rendered.values()):
        raise ValueError(f"a prompt needs tokens >= 1 and texts that have ids, got {tokens} and {len(rendered)} texts")
    names = list(rendered)
    last = list(rendered[names[(key.index + key.pass_number) % len(names)]])
    if tokens <= len(last):
        return last[:tokens]
    tail = last[: max(1, len(last) // 2)][-tokens:]
    return _filler(key, tokens - len(tail), rendered) + tail


def needle_prompt_ids(
    key: PromptKey, tokens: int, rendered: Rendered, planted: tuple[Sequence[int], Sequence[int]], depth: float
) -> list[int]:
    """`tokens` ids of texts with a fact at `depth`, and the question at the end.

    Args:
        key: what the prompt is for.
        tokens: its length.
        rendered: ids of the texts.
        planted: ids of the fact and of the question.
        depth: share of the filler that stands before the fact.
    """
    fact, question = planted
    length = tokens - len(fact) - len(question)
    if length < 1:
        raise ValueError(f"{tokens} tokens are too few for a fact of {len(fact)} and a question of {len(question)}")
    filler = _filler(key, length, rendered)
    place = round(depth * length)
    return [*filler[:place], *fact, *filler[place:], *question]


def _filler(key: PromptKey, tokens: int, rendered: Rendered) -> list[int]:
    """The last `tokens` ids of texts one after the other, as often as it takes."""
    names = sorted(rendered, key=lambda name: hashlib.sha256(f"{key.text()}/{name}".encode()).digest())
    ids = [token for name in names for token in rendered[name]]
    times = -(-tokens // len(ids))
    return (ids * times)[-tokens:] if tokens else []


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
