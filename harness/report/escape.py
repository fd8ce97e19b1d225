"""Text that strangers wrote, inside Markdown: it can format nothing, mention nobody and leave no fence."""

from __future__ import annotations

import re

from harness.report.text import public

BREAK = "\u200b"
"""An invisible space. Escaping is not enough against mentions and references: GitHub looks for them
in the rendered text, where an escaped `@` is an `@` again."""

_ACTIVE = re.compile(r"(?<![^\W_])_|_(?![^\W_])|[\\`*~\[\]|$]")
_MENTION = re.compile(r"[@#](?=\w)|(?<=[Gg][Hh])-(?=\d)|(?<=:)//|(?<=[Ww]{3})\.")
_RUN_OF_BACKTICKS = re.compile(r"`+")


def inline(text: str) -> str:
    """Text for a table's cell or a list's item, on one line."""
    flat = " ".join(public(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = _ACTIVE.sub(lambda m: f"\\{m[0]}", flat)
    return _MENTION.sub(lambda m: f"{m[0]}{BREAK}", flat)


def fenced(text: str) -> str:
    """A code block whose fence is longer than any run of backticks inside it."""
    shown = public(text)
    longest = max((len(run) for run in _RUN_OF_BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}\n"


def code(text: str) -> str:
    """A short identifier as code; only for text without backticks, as hashes are."""
    return f"`{public(text).replace('`', '')}`"
