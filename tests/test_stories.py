"""docs/stories.md is held to the project: every gate, row and test that it names is there, and its sums are right."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from harness.judge.gates import gates
from harness.paths import PROJECT

PAGE = PROJECT / "docs" / "stories.md"
STORIES = 51
"""As many as were collected."""
OF_GATES = {"fail", "void", "warn", "setup failure"}
TOLD = OF_GATES | {"inconclusive", "refused"}
RULED_OUT, SHOWN, MISSED = {"ruled out"}, {"note", "figure"}, {"missed"}


@dataclass(frozen=True)
class Story:
    """One line of the page."""

    number: int
    says: frozenset[str]
    by: str
    tests: tuple[str, ...]

    @property
    def rows(self) -> list[str]:
        return re.findall(r"row: `([^`]+)`", self.by)

    @property
    def gates(self) -> list[str]:
        """Names in code that are neither a row's nor a command."""
        names = re.findall(r"`([^`]+)`", re.sub(r"row: `[^`]+`", "", self.by))
        return [name for name in names if not name.startswith("qualify ")]


def _story(line: str) -> Story:
    number, _, says, by, _, tests = (cell.strip() for cell in line.strip().strip("|").split(" | "))
    return Story(int(number), frozenset(says.split(", ")), by, tuple(re.findall(r"`([^`]+)`", tests)))


def _stories() -> list[Story]:
    return [_story(line) for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\| \d", line)]


@cache
def _functions(module: Path) -> frozenset[str]:
    tree = ast.parse(module.read_text("utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


@cache
def _texts_of_the_judge() -> frozenset[str]:
    trees = (ast.parse(p.read_text("utf-8")) for p in (PROJECT / "harness" / "judge").rglob("*.py"))
    constants = (n.value for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, str))


BY_NUMBER = pytest.mark.parametrize("story", _stories(), ids=lambda story: str(story.number))


def test_every_story_has_one_line_in_its_order() -> None:
    assert [story.number for story in _stories()] == list(range(1, STORIES + 1))


@BY_NUMBER
def test_what_it_says_is_a_word_of_the_page(story: Story) -> None:
    kinds = [kind for kind in (TOLD, RULED_OUT, SHOWN, MISSED) if story.says <= kind]
    assert len(kinds) == 1, story.says


@BY_NUMBER
def test_the_gates_that_it_names_exist_and_give_the_words_that_it_says(story: Story) -> None:
    words = {gate.id: str(gate.word) for gate in gates()}
    assert not [name for name in story.gates if name not in words]
    if story.says <= TOLD:
        assert {words[name] for name in story.gates} == story.says & OF_GATES


@BY_NUMBER
def test_the_rows_that_it_names_exist(story: Story) -> None:
    assert not [name for name in story.rows if name not in _texts_of_the_judge()]
    if story.says & (SHOWN | {"inconclusive"}):
        assert story.rows


@BY_NUMBER
def test_the_tests_that_it_names_exist(story: Story) -> None:
    assert story.tests
    for name in story.tests:
        module, _, function = name.partition("::")
        assert function in _functions(PROJECT / "tests" / module), name


def test_the_sums_are_those_of_the_lines() -> None:
    kinds = Counter(next(i for i, k in enumerate((TOLD, RULED_OUT, SHOWN, MISSED)) if s.says <= k) for s in _stories())
    told, ruled_out, shown, missed = (kinds[n] for n in range(4))
    told_text = f"Of the {STORIES} stories {told} are told with their cause, {ruled_out} are ruled out, "
    assert f"{told_text}{shown} are shown only, and {missed} are missed." in PAGE.read_text("utf-8")
