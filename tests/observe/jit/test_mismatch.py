"""A kernel that warm-up compiled for other constants than serving needed, and the sentence that names it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.observe.jit.mismatch import Mismatch, mismatches
from harness.observe.jit.trace import TraceEvent

NAME = "_map_global_topk_to_gathered_ckv_kernel"
ONE = {"DCP_SIZE": 1, "DCP_INTERLEAVE": 1, "BLOCK": 1024}
FOUR = {"DCP_SIZE": 4, "DCP_INTERLEAVE": 64, "BLOCK": 1024}
B3 = f"{NAME}: warm-up DCP_SIZE=1 DCP_INTERLEAVE=1; serving DCP_SIZE=4 DCP_INTERLEAVE=64"


def event(constexprs: dict[str, Any], **fields: Any) -> TraceEvent:
    values = {"event": "compile", "backend": "Triton", "kernel": NAME, "begin_ns": 0, "end_ns": 1, "pid": 7}
    return TraceEvent.model_validate({**values, "constexprs": constexprs, **fields})


def found(warm: list[TraceEvent], serving: list[TraceEvent]) -> list[Mismatch]:
    return mismatches([(e, False) for e in warm] + [(e, True) for e in serving])


def test_the_bug_of_the_origin() -> None:
    [mismatch] = found([event(ONE)], [event(FOUR)])
    assert str(mismatch) == B3
    assert mismatch.ranks == ("pid 7",)


@pytest.mark.parametrize(
    ("warm", "serving"),
    [
        ([ONE], []),
        ([], [FOUR]),  # never warmed up: late, and no mismatch
        ([ONE, FOUR], []),
        ([ONE, FOUR], [FOUR]),  # another signature of the same constants
        ([{}], [{}]),
    ],
)
def test_what_warm_up_covers_is_no_mismatch(warm: list[dict[str, Any]], serving: list[dict[str, Any]]) -> None:
    assert found([event(c) for c in warm], [event(c) for c in serving]) == []


def test_the_constants_stand_in_the_order_of_the_parameters() -> None:
    [mismatch] = found([event({"Z": 1, "A": 1})], [event({"Z": 2, "A": 2})])
    assert str(mismatch) == f"{NAME}: warm-up Z=1 A=1; serving Z=2 A=2"


def test_several_specialisations_of_a_side_stand_apart() -> None:
    [mismatch] = found([event({"S": 1}), event({"S": 2})], [event({"S": 4}), event({"S": 8})])
    assert str(mismatch) == f"{NAME}: warm-up S=1, S=2; serving S=4, S=8"


def test_a_long_list_is_cut_and_says_so() -> None:
    [mismatch] = found([event({"S": 0})], [event({"S": n}) for n in range(1, 8)])
    assert str(mismatch) == f"{NAME}: warm-up S=0; serving S=1, S=2, S=3, S=4, and 3 more"


def test_each_process_is_judged_by_its_own_warm_up() -> None:
    # Rank 0 warmed both up; that does not help rank 1.
    warm = [event(ONE, rank=0), event(FOUR, rank=0), event(ONE, rank=1, pid=8)]
    [mismatch] = found(warm, [event(FOUR, rank=1, pid=8)])
    assert (str(mismatch), mismatch.ranks) == (B3, ("rank 1",))


def test_ranks_of_one_mismatch_are_one_mismatch() -> None:
    warm, served = ([event(c, rank=r, pid=r) for r in range(4)] for c in (ONE, FOUR))
    [mismatch] = found(warm, served)
    assert (str(mismatch), mismatch.ranks) == (B3, ("rank 0", "rank 1", "rank 2", "rank 3"))


@pytest.mark.parametrize("fields", [{"error": "OutOfResources"}, {"event": "load"}, {"event": "autotune"}])
def test_only_compilations_that_ended_well_count(fields: dict[str, str]) -> None:
    assert found([event(ONE)], [event(FOUR, **fields)]) == []
    assert found([event(ONE, **fields)], [event(FOUR)]) == []


def test_kernels_of_one_name_in_two_modules_are_two() -> None:
    assert found([event(ONE, module="a")], [event(FOUR, module="b")]) == []


def test_a_constant_that_only_one_side_has_is_shown() -> None:
    [mismatch] = found([event({"A": 1})], [event({"A": 1, "B": 2})])
    assert str(mismatch) == f"{NAME}: warm-up -; serving B=2"
