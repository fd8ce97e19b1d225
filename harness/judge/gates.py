"""Every gate and void rule as data, for whoever wants to know what was looked at (docs/gates.md). See gates.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from harness.words import Word

FILE = Path(__file__).with_name("gates.toml")


@dataclass(frozen=True)
class Gate:
    """One way in which a row can be something other than a pass."""

    id: str
    row: str
    """Name of the row; capitals stand for what differs from row to row."""
    word: Word
    rule: str
    """What trips it."""
    figures: str
    """Where in the bundle the figures stand."""
    code: str
    """The function of harness/judge that gives the word, from its module on."""
    threshold: str = ""
    """A margin or bound and what sets it; empty where any difference counts."""


def gates() -> tuple[Gate, ...]:
    """The table, in the order of the rows of a verdict."""
    table = tomllib.loads(FILE.read_text("utf-8"))
    return tuple(Gate(id=name, word=Word(fields.pop("word")), **fields) for name, fields in table.items())
