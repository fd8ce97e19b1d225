"""Where two trees or two files part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.verification.differences import differences, file_difference


@pytest.mark.parametrize(
    ("said", "found", "told"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", "1", "2")]),
        ({"a": 1}, {"a": 1.0}, [("a", "1", "1.0")]),
        ({"a": True}, {"a": 1}, [("a", "true", "1")]),
        ({"a": None}, {"a": 0}, [("a", "null", "0")]),
        ({"a": 1, "b": 2}, {"a": 1}, [("b", "2", None)]),
        ({"a": 1}, {"a": 1, "b": 2}, [("b", None, "2")]),
        ({"a": 1}, {"a": 1, "b": None}, []),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}, [("a.0.b", '"x"', '"y"')]),
        ({"a": [1]}, {"a": [1, 2]}, [("a.length", "1", "2")]),
        ({"a": [1, 2]}, {"a": [3]}, [("a.0", "1", "3"), ("a.length", "2", "1")]),
        ([], {}, [("", "[]", "{}")]),
        ({"a": "\x1b[31m"}, {"a": ""}, [("a", '"\\u001b[31m"', '""')]),
    ],
)
def test_every_leaf_is_told(said: Any, found: Any, told: list[tuple[str, str | None, str | None]]) -> None:
    assert list(differences(said, found)) == told


def parted(tmp_path: Path, said: bytes, found: bytes, name: str = "report/a.md") -> str:
    (tmp_path / "said").write_bytes(said)
    (tmp_path / "found").write_bytes(found)
    return str(file_difference(name, tmp_path / "said", tmp_path / "found"))


class TestFiles:
    def test_equal_ones_do_not_part(self, tmp_path: Path) -> None:
        assert parted(tmp_path, b"a\nb", b"a\nb") == "None"

    def test_text_parts_at_a_line(self, tmp_path: Path) -> None:
        assert parted(tmp_path, b"a\nb 1\nc", b"a\nb 2\nc") == "report/a.md: line 2: says 'b 1', is 'b 2'"

    def test_one_that_ends_early_parts_where_it_ends(self, tmp_path: Path) -> None:
        assert parted(tmp_path, b"a\n", b"a\nb\n") == "report/a.md: line 2: says '', is 'b'"

    def test_a_long_line_is_shown_around_the_place(self, tmp_path: Path) -> None:
        line = b"x" * 10_000
        text = parted(tmp_path, line + b"1" + line, line + b"2" + line)
        assert text.startswith("report/a.md: line 1: says 'x")
        assert len(text) < 400

    def test_the_line_is_right_beyond_the_first_piece(self, tmp_path: Path) -> None:
        lines = b"line\n" * 100_000
        assert parted(tmp_path, lines + b"1\n", lines + b"2\n").startswith("report/a.md: line 100001: ")

    def test_what_is_no_text_parts_by_its_hash(self, tmp_path: Path) -> None:
        assert parted(tmp_path, b"\x00", b"\x01", "report/a.parquet").startswith("report/a.parquet: SHA-256: says 6e34")

    def test_bytes_that_are_no_text_are_shown_in_print(self, tmp_path: Path) -> None:
        assert parted(tmp_path, b"\xff\x1b", b"\xff\x00").isprintable()
