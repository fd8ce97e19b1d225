"""The claim `late_jit_removed`: held, refuted or not shown, kernel by kernel and source by source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.config.claims import LateJitRemoved
from harness.config.model import Stack
from harness.words import ExitCode, Word

from .bundles import TRACED, Kernel, Session, stack

CLAIM = "claim late_jit_removed"
ONE, OTHER = "_map_global_topk_to_gathered_ckv_kernel", "UnifiedPrefillMGKernel"
NEEDED: Kernel = (ONE, {"DCP_SIZE": 4})


def claiming(*kernels: str) -> Stack:
    claim = LateJitRemoved(type="late_jit_removed", kernels=kernels)
    return stack("candidate").model_copy(update={"claims": (claim,)})


def session(folder: Path, *kernels: str, **overrides: object) -> Session:
    return Session(folder, overrides or None, candidate=claiming(*(kernels or (ONE,))))


# --- held -------------------------------------------------------------------------------------------


def test_it_holds_where_the_monitor_names_the_kernel_in_the_control_alone(tmp_path: Path) -> None:
    judged = session(tmp_path).both(armed=True).control(late_kernels=(ONE,)).judge()
    row = judged.row(CLAIM)
    assert row.word is Word.PASS
    assert row.reason == f"HELD: {ONE} late in the control, not late in the candidate (monitor)"
    assert row.control == f"{ONE}: late in first-prompt 96 (monitor)"
    assert row.candidate == f"{ONE}: not late"
    assert judged.verdict.exit_code == ExitCode.PASS


def test_it_holds_by_the_tracer_where_no_monitor_is_armed(tmp_path: Path) -> None:
    row = session(tmp_path, **TRACED).control(served=(NEEDED,)).candidate(warmed=(NEEDED,)).judge().row(CLAIM)
    assert (row.word, row.reason) == (
        Word.PASS,
        f"HELD: {ONE} late in the control, not late in the candidate (tracer)",
    )


def test_a_kernel_is_known_by_its_function_in_every_source(tmp_path: Path) -> None:
    line = f"[b12x cute.compile] miss reason=post-engine-start target=b12x.attention.mla.{OTHER} status=disk-cache-miss"
    held = session(tmp_path / "held", OTHER).control(late_lines=(line,)).judge().row(CLAIM)
    assert (held.word, held.control) == (Word.PASS, f"{OTHER}: late in first-prompt 96 (compiles)")
    methods = session(tmp_path / "method", OTHER).both(armed=True).control(late_kernels=(f"{OTHER}.kernel",))
    assert methods.judge().row(CLAIM).word is Word.PASS


# --- refuted ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "late"),
    [
        ({}, {"armed": True, "late_kernels": (ONE,)}),
        (TRACED, {"served": (NEEDED,)}),
        (
            {},
            {"late_lines": (f"[sparkinfer cute.compile] miss reason=x target=a.{ONE} status=disk-cache-miss",)},
        ),
    ],
    ids=["monitor", "tracer", "compiles"],
)
def test_it_is_refuted_where_the_kernel_is_still_late(
    tmp_path: Path, overrides: dict[str, object], late: dict[str, Any]
) -> None:
    """The B3 variant: nothing new is late, and yet the patch does not do what it says."""
    judged = session(tmp_path, **overrides).both(**late).judge()
    row = judged.row(CLAIM)
    assert (row.word, row.reason) == (Word.FAIL, f"REFUTED: {ONE} still late in the candidate")
    assert judged.verdict.exit_code == ExitCode.FAIL
    assert row.sources
    failing = {r.name for r in judged.verdict.rows if r.word is Word.FAIL}
    assert failing == {CLAIM}, "nothing is new against the control"


def test_one_kernel_that_is_still_late_refutes_the_whole_claim(tmp_path: Path) -> None:
    both = session(tmp_path, ONE, OTHER).both(armed=True).control(late_kernels=(ONE, OTHER))
    row = both.candidate(late_kernels=(OTHER,)).judge().row(CLAIM)
    assert (row.word, row.reason) == (
        Word.FAIL,
        f"REFUTED: {OTHER} still late in the candidate (beside {ONE} HELD)",
    )


def test_any_source_that_sees_it_late_refutes_it(tmp_path: Path) -> None:
    """The monitor names each kernel once and on one rank; the tracer sees the others."""
    arms = session(tmp_path, **TRACED).both(armed=True).control(late_kernels=(ONE,), served=(NEEDED,))
    row = arms.candidate(served=(NEEDED,)).judge().row(CLAIM)
    assert (row.word, row.candidate) == (Word.FAIL, f"{ONE}: late in first-prompt 96 (tracer)")


# --- not shown --------------------------------------------------------------------------------------


def test_it_is_not_shown_where_the_control_is_not_late_either(tmp_path: Path) -> None:
    judged = session(tmp_path).both(armed=True).judge()
    row = judged.row(CLAIM)
    assert (row.word, row.reason) == (Word.INCONCLUSIVE, f"NOT SHOWN: {ONE} not late in the control either")
    assert judged.verdict.exit_code == ExitCode.INCONCLUSIVE


def test_it_is_not_shown_where_nothing_was_armed(tmp_path: Path) -> None:
    row = session(tmp_path).both(listings=False).judge().row(CLAIM)
    assert (row.word, row.reason) == (Word.INCONCLUSIVE, f"NOT SHOWN: {ONE} no source was armed in the control")


def test_silence_of_a_monitor_that_is_off_in_the_candidate_shows_nothing(tmp_path: Path) -> None:
    row = session(tmp_path).control(armed=True, late_kernels=(ONE,)).judge().row(CLAIM)
    assert (row.word, row.reason) == (
        Word.INCONCLUSIVE,
        f"NOT SHOWN: {ONE} late in the control, but the candidate was not armed for: monitor",
    )


def test_a_trace_that_was_cut_off_is_told_from_launches_that_were_not(tmp_path: Path) -> None:
    """Seen on a GPU: the monitor was armed in both measured launches, and the sentence said that it was not."""
    arms = session(tmp_path, **TRACED).both(armed=True).control(late_kernels=(ONE,), served=(NEEDED,))
    row = arms.candidate(where={"trace": True}, stage="health").judge().row(CLAIM)
    assert (row.word, row.reason) == (
        Word.INCONCLUSIVE,
        f"NOT SHOWN: {ONE} late in the control, but the candidate was not armed for: monitor in the trace, tracer",
    )


@pytest.mark.parametrize("does", [{"stage": "after ready", "ends_after": 1}, {"ends_after": 1}])
def test_a_candidate_that_was_not_asked_the_same_shows_nothing(tmp_path: Path, does: dict[str, Any]) -> None:
    # It never got the long prompt that compiles the kernel.
    row = session(tmp_path).both(armed=True).control(late_kernels=(ONE,)).candidate(**does).judge().row(CLAIM)
    assert row.word is Word.INCONCLUSIVE


def test_cells_without_the_engines_warm_ups_are_not_asked(tmp_path: Path) -> None:
    # There the patch's own warm-up may be off, and the kernel late by intention.
    arms = session(tmp_path, **{"plan.warmups": ["none", "engine"]}).both(armed=True).control(late_kernels=(ONE,))
    assert arms.candidate(where={"warmup": "none"}, late_kernels=(ONE,)).judge().row(CLAIM).word is Word.PASS


def test_without_the_claim_there_is_no_row(tmp_path: Path) -> None:
    assert not Session(tmp_path).judge().rows(CLAIM)
