"""How a form is written down.

Rules that keep the parser linear in the length of a line, whatever a server under test prints: a pattern holds
its form's word, and no unbounded repeat may begin at more than one place of a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.observe.log.event import Kind, Value

NUMBER = r"\d[\d,]{0,29}"
DECIMAL = r"-?\d{1,15}(?:\.\d{1,15})?"


@dataclass(frozen=True)
class Form:
    """How a line of one kind looks."""

    kind: Kind
    word: bytes
    """ASCII that no line of this form lacks, as plain text and inside JSON (no quote, no backslash)."""
    pattern: re.Pattern[str]
    """Searched in the message; its groups are the event's values."""
    trigger: bytes
    """What is looked for in whole blocks: a part of the word, or what else no line of this form lacks."""
    says: Mapping[str, Value] = field(default_factory=dict)
    """Values that the form itself implies."""


SHARED = (
    "Using ",
    "ompil",
    " took ",
    "raph ",
    "Loading ",
    "max_num_",
    "version ",
    "armup ",
    "KV cache size",
    "or KV ",
    "ustom allreduce ",
)
"""Parts of many forms' words, rare elsewhere: every other thing to look for costs time on every byte."""


def form(kind: Kind, word: str, pattern: str, *, trigger: str = "", **says: Value) -> Form:
    """A form; see `Form`."""
    looked_for = trigger or next((part for part in SHARED if part in word), word)
    return Form(kind, word.encode("ascii"), re.compile(pattern), looked_for.encode("ascii"), says)


_TYPES: dict[str, Callable[[str], Value]] = {
    **dict.fromkeys(
        ("tokens", "per_request_tokens", "before", "blocks", "factor", "count", "node", "running", "waiting", "rank"),
        int,
    ),
    **dict.fromkeys(("swapped", "preemptions", "accepted", "drafted", "engine", "engines", "kv_bytes"), int),
    **dict.fromkeys(("max_model_len", "estimated_tokens"), int),
    **dict.fromkeys(("concurrency", "utilization", "prompt_rate", "generation_rate"), float),
}
_UNITS = ("seconds", "gib", "percent")


def typed(name: str, text: str) -> Value:
    """A group's value: a number where its name says so, else the text; text too where it is no number after all."""
    convert = (float if "." in text else int) if name.endswith(_UNITS) else _TYPES.get(name)
    if convert is None:
        return text
    try:
        return convert(text.replace(",", ""))
    except ValueError:  # `1.2.3`, or more digits than Python converts
        return text
