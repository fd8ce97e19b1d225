"""A clock that was set, told from one that is adjusted or read late."""

from __future__ import annotations

import pytest

from harness.observe.clocks import jump_s

S = 1_000_000_000


@pytest.mark.parametrize(
    ("moments", "jump"),
    [
        ([], None),
        ([(0, 0)], None),
        ([(0, 0), (10 * S, 10 * S)], None),
        ([(0, 0), (10 * S, 10 * S + S // 2)], None),
        ([(0, 0), (3600 * S, 3602 * S)], None),
        ([(0, 0), (10 * S, 12 * S)], 2.0),
        ([(0, 0), (10 * S, 8 * S), (20 * S, 18 * S)], -2.0),
        ([(0, 0), (10 * S, 12 * S), (20 * S, 10 * S)], -12.0),
    ],
    ids=["none", "one", "equal", "late reading", "slewed", "forward", "back", "the larger of two"],
)
def test_a_jump_is_a_step_and_not_a_drift(moments: list[tuple[int, int]], jump: float | None) -> None:
    assert jump_s(moments) == jump
