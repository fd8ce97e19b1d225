"""Text that strangers wrote, made fit to be shown: no terminal codes, no private paths, no tokens."""

from __future__ import annotations

import re

from harness.evidence.redaction.finding import found_in_text, hidden

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Control characters, and those that hide text or turn its direction round."""

_PATH = re.compile(r"(?:(?<=file://)|(?<![\w./…~-]))~?/(?!v\d+/)(?:[\w.@+~=,-]+/)*[\w.@+~=,-]*")
_INSTALLED = re.compile(r"/((?:site|dist)-packages/.*)")


def public(text: str) -> str:
    """Text of a log, a reason or a command line as a report may show it; the bundle keeps the original."""
    return _redacted(plain(text))


def plain(text: str) -> str:
    r"""Without terminal codes and unseen characters; of a line redrawn with `\r`, what stood last."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate cannot be written to a file
    lines = _TERMINAL.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(_UNSEEN.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in lines)


def _redacted(text: str) -> str:
    return hidden(_PATH.sub(_short_path, text))


def _short_path(match: re.Match[str]) -> str:
    """Where a file lies on the host is nobody's business; which file it is says the last component."""
    path = match[0]
    if path.strip("/").count("/") == 0:  # `/health`, `/tmp`: names nothing
        return path
    if (found := found_in_text(path)) and "/" not in (behind := path[found[-1].end :].rstrip("/")):
        return f"…/[{found[-1].kind}]{behind}"  # a home: its name says whose
    if installed := _INSTALLED.search(path):
        return f"…/{installed[1]}"
    return f"…/{path.rstrip('/').rpartition('/')[2]}"


def last_component(path: str) -> str:
    """Name of a folder or of a hub model, without where it lies."""
    return path.rstrip("/").rpartition("/")[2]


def plural(count: int, what: str, many: str = "") -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {what if count == 1 else many or f'{what}s'}"


def signed(value: float) -> str:
    """`+1.2 %`; what rounds to nothing is never less than nothing."""
    return f"{round(value, 1) + 0.0:+,.1f} %"


def tokens_text(context_tokens: int | None) -> str:
    """A context's length as people of this field say it: 2K, 32K, 1,000."""
    if context_tokens is None:
        return ""
    if context_tokens >= 1024 and context_tokens % 1024 == 0:
        return f"{context_tokens // 1024}K"
    return f"{context_tokens:,}"


def shortened(names: list[str], limit: int = 3) -> str:
    """The first few of a list, and how many there are beyond."""
    beyond = len(names) - limit
    return "; ".join(names[:limit]) + (f"; and {beyond} more" if beyond > 0 else "")
