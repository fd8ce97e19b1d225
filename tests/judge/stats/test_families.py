"""Adjusted p values against scipy and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.judge.stats.families import benjamini_hochberg, holm

many = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


@settings(max_examples=100)
@given(many)
def test_benjamini_hochberg_is_scipys(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(list(stats.false_discovery_control(p)))


@settings(max_examples=100)
@given(many)
def test_holm_is_between_alone_and_bonferroni_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm(p)
    for raw, one in zip(p, adjusted, strict=True):
        assert raw <= one <= min(1.0, len(p) * raw) or one == pytest.approx(min(1.0, len(p) * raw))
    by_raw = [a for _, a in sorted(zip(p, adjusted, strict=True))]
    assert by_raw == sorted(by_raw)
    assert min(adjusted) == pytest.approx(min(1.0, len(p) * min(p))), "the smallest pays for all"
