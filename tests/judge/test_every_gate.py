"""Every gate trips once, by its own name: the table of gates is held against the judge's code, and each is broken."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.judge.gates import Gate, gates
from harness.paths import PROJECT
from harness.records import Row
from harness.words import Word

from .gate_cases import CASES
from .gates_page import BY_SESSION, END_TO_END, FAILURES, NOT_END_TO_END, PAGE, page

JUDGE = PROJECT / "harness" / "judge"
GRAVE = {w.name: w for w in (Word.FAIL, Word.WARN, Word.VOID, Word.SETUP_FAILURE, Word.REFUSED)}
NO_GATE = {
    ("voids", "FAIL"): "the list of words that a broken measurement overrules",
    ("voids", "WARN"): "likewise",
    ("rows.readiness._row", "FAIL"): "the order in which the words of several pairs count",
    ("rows.readiness._row", "SETUP_FAILURE"): "likewise",
    ("rows.claims._row", "FAIL"): "the order in which outcomes count",
    ("rows.late_claim._row", "FAIL"): "likewise",
}
"""Places of the code that name a word and do not give it."""
OF_MANY_ROWS = ("regressed", "speed-refused", "beside-a-stranger", "computed-otherwise")
"""Gates whose row is described, as it has many names."""


def words_of(path: Path) -> Iterator[tuple[str, str]]:
    """(function, word) for every word of the judge's code that is neither a pass nor a note."""
    module = path.relative_to(JUDGE).with_suffix("").as_posix().replace("/", ".")

    def walk(node: ast.AST, place: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
            inside = f"{place}.{name}" if name else place
            if isinstance(child, ast.Compare):
                continue  # asked for, not given
            if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
                if child.value.id == "Word" and child.attr in GRAVE:
                    yield place, child.attr
                if child.value.id == "Claimed" and child.attr == "REFUTED":
                    yield place, "FAIL"
            yield from walk(child, inside)

    return walk(ast.parse(path.read_text("utf-8")), module)


def test_every_word_that_the_code_can_give_is_a_gate_of_the_table() -> None:
    found = Counter(pair for path in sorted(JUDGE.rglob("*.py")) for pair in words_of(path))
    known = Counter((g.code, next(k for k, w in GRAVE.items() if w is g.word)) for g in gates())
    missing = {pair: n for pair, n in found.items() if pair not in NO_GATE and known[pair] < n}
    assert not missing, "the judge can give these words, and gates.toml does not name so many"
    assert not [pair for pair in known if pair not in found], "gates.toml names words that the code does not give"
    assert set(NO_GATE) <= set(found)


def test_every_gate_is_driven() -> None:
    assert {g.id for g in gates()} == CASES.keys() | BY_SESSION.keys()
    assert not CASES.keys() & BY_SESSION.keys()


def is_row(gate: Gate, name: str, row: Row) -> bool:
    return row.word is gate.word and (row.name.startswith(name) if name else row.name == gate.row)


@pytest.mark.parametrize("gate", [g for g in gates() if g.id in CASES], ids=lambda g: g.id)
def test_a_gate_trips_and_says_what_and_where(gate: Gate, tmp_path: Path) -> None:
    case = CASES[gate.id]
    verdict = case.made(tmp_path)
    rows = [r for r in verdict.rows if is_row(gate, case.row, r)]
    assert rows, [(r.name, r.word, r.reason) for r in verdict.rows if r.name.startswith(case.row or gate.row)]
    [row, *_] = [r for r in rows if case.told in r.reason] or pytest.fail(str([r.reason for r in rows]))
    assert row.sources, "a row that is no pass says where its figures stand"
    if gate.word is not Word.WARN:
        assert verdict.exit_code != 0


def module_of(test: str) -> Path:
    """`test_void_rules::test_x` of tests/e2e, or `launch/test_process.py::test_x` of tests."""
    module = test.partition("::")[0]
    return PROJECT / "tests" / (module if "/" in module else f"e2e/{module}.py")


@pytest.mark.parametrize("name", sorted({*END_TO_END.values(), *BY_SESSION.values(), *FAILURES.values()}))
def test_a_test_that_the_page_names_exists(name: str) -> None:
    tree = ast.parse(module_of(name).read_text("utf-8"))
    assert name.partition("::")[2] in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("gate", gates(), ids=lambda g: g.id)
def test_a_gate_is_driven_through_a_server_or_says_why_not(gate: Gate) -> None:
    assert (gate.id in END_TO_END) != (gate.id in NOT_END_TO_END)
    if gate.id in NOT_END_TO_END:
        return
    text = module_of(END_TO_END[gate.id]).read_text("utf-8")
    if END_TO_END[gate.id].startswith("test_selftest::"):
        text = (PROJECT / "harness" / "controls" / "table.py").read_text("utf-8")
    if gate.id not in OF_MANY_ROWS:
        stable = re.split(r"[A-Z]{4,}|, N ", gate.row)[0].strip(" ,")
        assert stable in text, f"{END_TO_END[gate.id]} says nothing of {stable!r}"


def test_the_page_is_that_of_the_table() -> None:
    """`python -m tests.judge.gates_page` writes it again."""
    assert PAGE.read_text("utf-8") == page()
