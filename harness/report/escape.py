"""Text that strangers wrote, inside Markdown: it can format nothing, mention nobody and leave no fence.

Escaping with backslashes is not enough: GitHub looks for mentions, references and addresses in the rendered
text, where an escaped `@` is an `@` again. So what would become a link is parted by an invisible space, and
what may be a commit's hash is set as code, where nothing is linked and which still can be copied.
"""

from __future__ import annotations

import re

from harness.report.text import public

BREAK = "\u200b"
"""An invisible space. `public` removes strangers' own before ours are put in."""

_HASH = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{7,40}(?![0-9A-Za-z])")
"""What GitHub may take for a commit: `a1b2c3d`, also behind `repository@`."""

_ACTIVE = re.compile(r"(?<![^\W_])_|_(?![^\W_])|[\\`*~\[\]|$]")
_LINKED = re.compile(
    r"[@#](?=\w)|(?<=[Gg][Hh])(?=-\d)|(?<=:)(?=//)|(?<=[Ww]{3})(?=\.)|(?<=mailto)(?=:)|(?<=xmpp)(?=:)"
    r"|:(?=(?:(?=\w*[a-z])[\w+-]+|[+-]1|100|1234)(?::|$))",  # an emoji's name: some are images
    re.IGNORECASE,
)
_OPENS_A_BLOCK = re.compile(r"^(?:([-+=#]+)|(\d{1,9})(?=[.)]))(?=[.)]?(?: |$))")
"""A list's item, a heading, a rule: where the text stands at the beginning of a line."""
_RUN_OF_BACKTICKS = re.compile(r"`+")


def inline(text: str, limit: int | None = None) -> str:
    """Text for a table's cell or a list's item, on one line; of a text longer than `limit`, its beginning."""
    flat = " ".join(public(text).split())
    if limit is not None and len(flat) > limit:
        flat = f"{flat[: limit - 1]}…"
    parts, end = [], 0
    for found in _HASH.finditer(flat):
        parts += [_escaped(flat[end : found.start()]), f"`{found[0]}`"]
        end = found.end()
    parts.append(_escaped(flat[end:]))
    return _OPENS_A_BLOCK.sub(lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\", "".join(parts))


def fenced(text: str) -> str:
    """A code block whose fence is longer than any run of backticks inside it.

    GitHub links nothing in there; robots that read the raw text for their name do not know that.
    """
    shown = public(text).replace("@", f"@{BREAK}")
    longest = max((len(run) for run in _RUN_OF_BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}\n"


def code(text: str) -> str:
    """A line of identities as code, to be copied as it is; not for a table's cell, where a `|` would end it."""
    flat = " ".join(public(text).replace("`", "").split())
    return f"`{flat or '-'}`"


def breakable(cell: str, width: int) -> str:
    """An escaped cell whose words longer than `width`, as kernels' names are, may be broken after an underscore."""
    return " ".join(word.replace("_", f"_{BREAK}") if len(word) > width else word for word in cell.split(" "))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _LINKED.sub(lambda m: f"{m[0]}{BREAK}", text)  # before a backslash parts what belongs together
    return _ACTIVE.sub(lambda m: f"\\{m[0]}", text)
