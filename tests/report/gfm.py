"""A comment as GitHub's own renderer of Markdown makes it, raw HTML left in: what a stranger's text could reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

VOID_TAGS = {"br", "hr", "img", "input"}
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200c-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
LINKED = {
    "mention": re.compile(r"@\w"),
    "issue": re.compile(r"#\w|\bGH-\d", re.IGNORECASE),
    "commit": re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{7,40}(?![0-9A-Za-z])", re.IGNORECASE),
    "address": re.compile(r"://|\bwww\.", re.IGNORECASE),
    "emoji": re.compile(r":[+-]1:|:\w*[a-z]\w*:"),
}
"""What GitHub makes links and images of in a rendered text, outside of code."""


@dataclass
class Rendered(HTMLParser):
    """Tags in order, and text outside of code."""

    html: str
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str | None]] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    """Text of each code block."""
    rows: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self.feed(self.html)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID_TAGS:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag == "pre":
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if "pre" in self._open:
            self.blocks[-1] += data
        elif "code" not in self._open:
            self.prose.append(data)
        if "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data

    def handle_comment(self, data: str) -> None:
        self.tags.append(f"!{data}")

    def handle_decl(self, decl: str) -> None:
        self.tags.append(f"!{decl}")

    def links(self) -> Iterator[str]:
        """What GitHub would link beyond what the renderer did."""
        for text in self.prose:
            for what, pattern in LINKED.items():
                if found := pattern.search(text):
                    yield f"{what}: {found[0]!r} in {text!r}"


def render(text: str) -> Rendered:
    """As GitHub does, less its filter of dangerous HTML."""
    cmarkgfm = pytest.importorskip("cmarkgfm")
    from_c = cmarkgfm.github_flavored_markdown_to_html(text, options=cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE)
    return Rendered(str(from_c))
