"""Sources of figures as links into the bundle, with the very line that a figure came from.

A browser does not jump to a line of a text file, so the line is quoted beside its link, with its number; a text
fragment leads to it in those browsers that show the file as plain text.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from harness.report.text import public

READ_BYTES = 64 << 20
"""A line that stands further into its file is not quoted."""

QUOTED, FRAGMENT, QUOTES = 240, 72, 4
"""Characters of a quoted line and of the fragment that leads to it; lines of one source."""

_FILE = re.compile(r"^(?!/)(?:[\w.+=-]+/)*?[\w.+=-]+?\.(?:jsonl?|log|prom|parquet|xml)(?=$|:|,| |\.\.)")
"""A file at the beginning of a source; a line, a field, or the second file of a range may follow."""
_SECOND = re.compile(r"^\.\.([\w.+-]+\.prom)")
_LINE = re.compile(r"^:(\d+)")
_REQUESTS = re.compile(r"^ (?:request )?(\d+(?:, \d+)*)")
_FIELD = re.compile(r"^:? ([\w.:]+(?: [\w.]+)?)$")
_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*(?=\s)")
"""Whole words with single blanks between them: a browser looks for exactly that."""


@dataclass(frozen=True)
class TextFile:
    """A file of lines, read a line at a time."""

    path: Path

    def line(self, number: int) -> str | None:
        """A line by its number from 1, as text; None beyond the end or too far in."""
        if not 0 < number < len(self._ends):
            return None
        with self.path.open("rb") as stream:
            stream.seek(self._ends[number - 1])
            return stream.read(min(self._ends[number] - self._ends[number - 1], 4 * QUOTED)).decode("utf-8", "replace")

    def numbered(self, begin: str) -> int | None:
        """Number of the first line that begins so."""
        return self._beginnings.get(begin.encode()[: self._width])

    @cached_property
    def _ends(self) -> array[int]:
        ends = array("Q", [0])
        with self.path.open("rb") as stream:
            for line in iter(lambda: stream.readline(READ_BYTES), b""):
                ends.append(ends[-1] + len(line))
                if ends[-1] >= READ_BYTES:
                    break
        return ends

    _width = 96

    @cached_property
    def _beginnings(self) -> dict[bytes, int]:
        """By every part of a line that ends at a comma, a blank or a brace."""
        found: dict[bytes, int] = {}
        with self.path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(READ_BYTES), b""), 1):
                for end in re.finditer(rb"[,{ ]", line[: self._width]):
                    found.setdefault(line[: end.start()], number)
        return found


class Sources:
    """The files of one bundle, as a page that lies in its report folder refers to them."""

    def __init__(self, root: Path) -> None:
        self._root, home = root, root.resolve()
        self._file = cache(lambda name: TextFile(root / name))
        # Never a file outside, that a link in a stranger's bundle may lead to.
        self._exists = cache(lambda name: (root / name).is_file() and (root / name).resolve().is_relative_to(home))

    def link(self, source: str, *, short: bool = False) -> Markup:
        """A source whose file is in the bundle as a link to it; any other as its text.

        Args:
            source: As rows name it, e.g. `launches/ID/server.log:12`.
            short: Without the launch's folder, where the launch is named beside it.
        """
        if (found := self._found(source)) is None:
            return Markup("{}").format(public(source))  # format escapes its arguments
        name, rest = found
        lines = self._lines(name, rest)
        fragment = Markup(_fragment(lines[0][1]) if lines else "")  # noqa: S704  # percent-encoded
        shown = "/".join(name.split("/")[2:] or [name]) if short else name
        linked = Markup('<a href="../{}{}">{}</a>').format(name, fragment, shown)
        second = _SECOND.match(rest)
        if second and self._exists(other := f"{name.rpartition('/')[0]}/{second[1]}"):
            return linked + Markup('..<a href="../{}">{}</a>{}').format(other, second[1], public(rest[second.end() :]))
        return linked + public(rest)

    def quoted(self, source: str) -> Markup:
        """The lines that a source names, with their numbers; nothing where it names a whole file."""
        if (found := self._found(source)) is None:
            return Markup()
        return Markup().join(
            Markup('<code class="line"><i>{}</i> {}</code>').format(number, _short(text))
            for number, text in self._lines(*found) or self._field(*found)
        )

    def _found(self, source: str) -> tuple[str, str] | None:
        """The file that a source begins with, and what follows; None where the bundle has no such file."""
        match = _FILE.match(source)
        if match is None or ".." in match[0].split("/") or not self._exists(match[0]):
            return None
        return match[0], source[match.end() :]

    def _lines(self, name: str, rest: str) -> list[tuple[int, str]]:
        file = self._file(name)
        found = [(n, text) for n in self._numbers(file, name, rest) if (text := file.line(n)) is not None]
        return found[:QUOTES]

    def _numbers(self, file: TextFile, name: str, rest: str) -> Iterator[int]:
        if line := _LINE.match(rest):
            yield int(line[1])
        elif name.endswith(".jsonl") and (requests := _REQUESTS.match(rest)):
            begins = (f'{{"request": "{request}"' for request in requests[1].split(", "))
            yield from (n for b in begins if (n := file.numbered(b)) is not None)
        elif name.endswith("timeline.jsonl"):
            begins = (f'{{"mark": "{mark.strip()}"' for mark in rest.removeprefix(":").split(","))
            yield from (n for b in begins if (n := file.numbered(b)) is not None)
        elif name.endswith(".prom") and (field := _FIELD.match(rest)) and (n := file.numbered(field[1].split()[0])):
            yield n

    def _field(self, name: str, rest: str) -> list[tuple[str, str]]:
        """`launch.json gpu.sampling`: the value of that field."""
        field = _FIELD.match(rest)
        if not (name.endswith(".json") and field):
            return []
        try:
            value = json.loads((self._root / name).read_bytes())
            for key in field[1].split("."):
                value = value[key]
        except (ValueError, KeyError, TypeError):
            return []
        return [(field[1], json.dumps(value))]


def _fragment(line: str) -> str:
    """A text fragment that leads to a line; '' where there is nothing to look for, or nothing that may be shown."""
    match = _PLAIN.match(line[:FRAGMENT])
    if match is None or public(match[0]) != match[0]:
        return ""
    return f"#:~:text={quote(match[0], safe='').replace('-', '%2D')}"


def _short(line: str) -> str:
    shown = " ".join(public(line).split())
    return shown if len(shown) <= QUOTED else f"{shown[: QUOTED - 1]}…"
