"""Two verdicts' rows: the same ones are held against each other, wherever they stand."""

from __future__ import annotations

from typing import Any

import pytest

from harness.verification import rows
from harness.verification.differences import shown
from harness.verification.rows import row_differences


def row(name: str, word: str = "pass", **where: object) -> dict[str, Any]:
    return {"name": name, "mode": "mtp1", "word": word, "sources": [], **where}


SAID = [row("a"), row("b"), row("c")]


def parted(said: list[Any], found: list[Any]) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(*difference, of and of["name"]) for difference, of in row_differences(said, found)]


def test_a_row_that_a_later_judge_has_more_is_one_difference() -> None:
    """A row in the middle gave over a hundred, of all that came after it."""
    [(field, said, found, name)] = parted(SAID, [SAID[0], row("new"), *SAID[1:]])
    assert (field, said, name) == ("rows.1", None, "new")
    assert '"name": "new"' in (found or "")


def test_a_row_that_is_there_no_more_is_one_difference() -> None:
    [(field, said, found, name)] = parted(SAID, [SAID[0], SAID[2]])
    assert (field, found, name) == ("rows.1", None, None)
    assert '"name": "b"' in (said or "")


def test_what_a_row_says_is_told_by_field_behind_one_that_is_new() -> None:
    found = parted(SAID, [row("new"), *SAID[:2], row("c", "fail")])
    assert [f[0] for f in found] == ["rows.0", "rows.2.word"]
    assert found[1] == ("rows.2.word", '"pass"', '"fail"', "c")


@pytest.mark.parametrize("change", [{"name": "x"}, {"mode": "mtp0"}, {"cache": "warm"}])
def test_who_a_row_is_may_have_been_changed(change: dict[str, object]) -> None:
    [(field, said, found, name)] = parted([SAID[0], SAID[1] | change, SAID[2]], SAID)
    [key] = change
    assert (field, name) == (f"rows.1.{key}", "b")
    assert (said, found) != (None, None)


@pytest.mark.parametrize("strange", [None, 7, "row", [], {}, {"name": {"deep": [1]}}])
def test_what_is_no_row_is_a_difference_and_no_error(strange: Any) -> None:
    assert parted([SAID[0], strange, SAID[2]], SAID)


def test_the_many_rows_of_a_stranger_cost_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "SequenceMatcher", None)  # would be called, and fail
    many = [row(str(n)) for n in range(rows.MOST_ALIGNED + 1)]
    assert parted(many, many[:-1]) == [(f"rows.{rows.MOST_ALIGNED}", shown(many[-1]), None, None)]
