"""One order of what is grave, whichever report asks for it."""

from __future__ import annotations

import pytest

from harness.report.integrity import GRAVEST
from harness.report.lines import GRAVITY
from harness.report.model import NOTEWORTHY
from harness.words import GRAVE, VERDICT_ORDER, Word


@pytest.mark.parametrize("order", [GRAVITY, GRAVEST], ids=["lines", "panel"])
def test_every_word_has_its_place_once(order: tuple[Word, ...]) -> None:
    assert sorted(order) == sorted(Word)


def test_what_is_grave_comes_first_everywhere_and_in_one_order() -> None:
    for order in (GRAVITY, GRAVEST, NOTEWORTHY):
        assert order[: len(GRAVE)] == GRAVE


def test_it_is_the_order_in_which_a_verdict_is_decided() -> None:
    assert [word for word in GRAVE if word in VERDICT_ORDER] == list(VERDICT_ORDER[:-1])


def test_no_row_that_is_merely_good_stands_before_the_tables() -> None:
    assert set(Word) - set(NOTEWORTHY) == {Word.PASS, Word.NOT_TESTED}
