"""What is not claimed is told once per reason, not once per cell."""

from __future__ import annotations

import pytest

from harness.records import Row
from harness.report.model import Untested, untested
from harness.words import Word

BLIND = "; read every 50 ms, at worst {} ms: what was shorter is not seen"


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ([f"no gate{BLIND.format(n)}" for n in ("93", "1,082")], "no gate"),
        (["counted once per process, read every 0.25 s; no gate", "counted once per process; no gate"], None),
        (
            [f"exploratory: no clear change: +{n} %, 90 % interval -1.0 % to +9.0 % (better is +)" for n in (1, 2)],
            "exploratory: no clear change",
        ),
        (["-7.6 % (better is +); one pair shows no spread", "one pair shows no spread"], None),
    ],
)
def test_reasons_that_differ_in_figures_alone_are_one(reasons: list[str], told: str | None) -> None:
    """The page of a matrix on an H200 named "free at idle" nine times, each with another 82 to 98 ms."""
    rows = [Row(name="free at idle", word=Word.NOT_TESTED, reason=reason) for reason in reasons]
    assert untested(rows) == [Untested(told or reasons[-1], ("free at idle",), 2)]


def test_reasons_that_differ_otherwise_are_not() -> None:
    rows = [Row(name="x", word=Word.NOT_TESTED, reason=reason) for reason in ("no gate", "no sample")]
    assert [found.reason for found in untested(rows)] == ["no gate", "no sample"]
