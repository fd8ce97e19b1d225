"""Reads a page back as a browser would, as far as the tests need it."""

from __future__ import annotations

from html.parser import HTMLParser

UNCLOSED = {"meta", "br"}


class Page(HTMLParser):
    """Elements, identifiers and texts of a page; a tag that closes another is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.blocks: list[str] = []
        """Text of every <pre>."""
        self.rows: list[list[str]] = []
        """Text of every cell, by table row."""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def of(self, tag: str, css_class: str | None = None) -> list[dict[str, str]]:
        """Attributes of every such element."""
        return [
            a for t, a in self.elements if t == tag and (css_class is None or css_class in a.get("class", "").split())
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))
        if tag == "pre":
            self.blocks.append("")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in UNCLOSED:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1] == tag, f"</{tag}> closes <{self._open[-1]}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if "pre" in self._open:
            self.blocks[-1] += data
        if "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data

    def table_row(self, first: str) -> list[str]:
        """Cells of the row that begins with a text, stripped."""
        [found] = [r for r in self.rows if r and r[0].strip() == first]
        return [cell.strip() for cell in found]
