"""No column goes without a word, and what is said is what is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.report.tables import TABLES
from harness.report.tables.columns import Column, Kind, Table
from harness.report.tables.rows import number_in
from harness.report.tables.write import explained

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "tables.md"


@pytest.mark.parametrize(("name", "about"), [("x", ""), ("x", "  "), ("", "what it is"), (" ", "what it is")])
def test_a_column_that_says_nothing_cannot_be(name: str, about: str) -> None:
    with pytest.raises(ValueError, match="a column needs a name and says what it is"):
        Column(name, Kind.TEXT, about, lambda _: None)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_names_are_fit_for_code_and_each_stands_once(table: Table) -> None:
    names = [c.name for c in table.columns]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in [table.name, *names])


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_a_number_has_a_unit_or_needs_none(table: Table) -> None:
    without = {c.name for c in table.columns if c.kind is Kind.NUMBER and not c.unit}
    assert without <= {"sd", "df", "p", "p_adjusted", "p_improved", "p_improved_adjusted"}


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_every_table_and_column_is_explained(table: Table) -> None:
    section = explained().partition(f"\n## {table.name}\n")[2].partition("\n## ")[0]
    assert table.about in section
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    assert lines == [f"| `{c.name}` | {c.kind} | {c.unit} | {c.about} |" for c in table.columns]
    assert all(line.count("|") == 5 for line in lines)


def test_the_document_says_what_the_code_says() -> None:
    assert DOCUMENT.read_text("utf-8") == explained(), "docs/tables.md: write what `explained()` gives"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.5", 12.5),
        ("10,112", 10112.0),
        ("-3", -3.0),
        ("+0.25", 0.25),
        ("0", 0.0),
        ("1,234,567.8", 1234567.8),
        (None, None),
        ("", None),
        ("12.3 / 12.5", None),
        ("1 of 1", None),
        ("identical", None),
        ("1,2", None),
        ("nan", None),
        ("3 outputs", None),
    ],
)
def test_a_figure_is_a_number_where_it_is_one(text: str | None, number: float | None) -> None:
    assert number_in(text) == number
