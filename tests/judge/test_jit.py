"""Kernels that are late, from sources kept apart: the monitor's lines, the log's compilations, cache files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.words import ExitCode, Word

from .bundles import COLD, WARM, WARM_TOO, Session

MONITOR, COMPILES = "late JIT (engine's monitor)", "late compiles (caches)"
ONE, OTHER = "_map_global_topk_kernel", "UnifiedPrefillMGKernel"
PAIRS: dict[str, object] = {"plan.caches": ["warm"], "plan.pairs": 2}

# --- the engine's monitor ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("control", "candidate", "word", "told"),
    [
        ((), (), Word.PASS, "no kernel is late that is not late in the control"),
        ((ONE,), (ONE,), Word.PASS, "no kernel is late that is not late in the control"),
        ((ONE, OTHER), (ONE,), Word.PASS, "no kernel is late that is not late in the control"),
        ((ONE,), (ONE, OTHER), Word.FAIL, f"new against control: {OTHER}"),
        ((), (ONE,), Word.FAIL, f"new against control: {ONE}"),
        ((ONE,), (OTHER,), Word.FAIL, f"new against control: {OTHER}"),
    ],
)
def test_a_late_kernel_fails_where_the_control_does_not_have_it(
    tmp_path: Path, control: tuple[str, ...], candidate: tuple[str, ...], word: Word, told: str
) -> None:
    session = Session(tmp_path).both(armed=True).control(late_kernels=control)
    judged = session.candidate(late_kernels=candidate).judge()
    row = judged.row(MONITOR)
    assert (row.word, row.reason) == (word, told)
    assert row.control == (", ".join(sorted(control)) or "none")
    assert row.candidate == (", ".join(sorted(candidate)) or "none")
    assert judged.verdict.exit_code == (ExitCode.FAIL if word is Word.FAIL else ExitCode.PASS)


def test_a_late_kernel_names_the_line_that_it_was_read_from(tmp_path: Path) -> None:
    session = Session(tmp_path).both(armed=True).candidate(late_kernels=(ONE,))
    [source] = session.judge().row(MONITOR).sources
    file, _, line = source.rpartition(":")
    assert ONE in (session.root / "bundle" / file).read_text("utf-8").splitlines()[int(line) - 1]


def test_a_monitor_that_is_armed_in_no_arm_proves_nothing(tmp_path: Path) -> None:
    row = Session(tmp_path).judge().row(MONITOR)
    assert (row.word, row.control, row.candidate) == (Word.NOT_TESTED, "not armed", "not armed")


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_a_monitor_that_is_armed_in_one_arm_only_is_void(tmp_path: Path, arm: str) -> None:
    judged = getattr(Session(tmp_path), arm)(armed=True).judge()
    row = judged.row(MONITOR)
    assert (row.word, judged.verdict.exit_code) == (Word.VOID, ExitCode.VOID)
    assert "in one arm only" in row.reason


def test_a_monitor_that_was_off_in_one_launch_of_an_arm_is_void(tmp_path: Path) -> None:
    # Its silence would pass for "no late kernel" beside the other launch's armed monitor.
    session = Session(tmp_path, PAIRS).both(armed=True).candidate(where=WARM | {"pair": 1}, armed=False)
    row = session.judge().row(MONITOR, cache="warm")
    assert row.word is Word.VOID
    assert "but not in" in row.reason


def test_a_monitor_that_speaks_is_on_whether_or_not_it_said_so(tmp_path: Path) -> None:
    # A fork without the line that says "armed": the late kernel must not end as "not tested".
    one_arm = Session(tmp_path / "one").candidate(late_kernels=(ONE,)).judge()
    assert one_arm.row(MONITOR).word is Word.VOID
    both = Session(tmp_path / "both").control(late_kernels=(ONE,)).candidate(late_kernels=(ONE, OTHER)).judge()
    assert both.row(MONITOR).word is Word.FAIL


def test_a_late_kernel_in_any_of_several_launches_counts(tmp_path: Path) -> None:
    session = Session(tmp_path, PAIRS).both(armed=True)
    judged = session.candidate(where=WARM | {"pair": 1}, late_kernels=(ONE,)).judge()
    assert judged.row(MONITOR, cache="warm").word is Word.FAIL


def test_a_launch_that_never_became_ready_is_no_unarmed_one(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(armed=True).candidate(stage="health").judge()
    assert judged.row(MONITOR).word is Word.NOT_TESTED


DIED: dict[str, Any] = {"stage": "decode", "ends_after": 3}


@pytest.mark.parametrize(
    ("late", "name"),
    [
        ({"late_kernels": (ONE,)}, MONITOR),
        ({"late_compiles": 1}, COMPILES),
        ({"late_files": 3}, COMPILES),
        ({"late_loads": 1}, COMPILES),
    ],
    ids=["monitor", "compiled", "files", "loaded"],
)
def test_a_control_that_died_is_no_witness_that_something_is_late_in_the_candidate_alone(
    tmp_path: Path, late: dict[str, Any], name: str
) -> None:
    """Seen with four ranks: the control's died before the prompts that compile, and its candidate was warned."""
    judged = Session(tmp_path).both(armed=True).control(**DIED).candidate(**late).judge()
    row = judged.row(name)
    assert row.word is Word.NOT_TESTED
    assert ", but the control was not asked all that the candidate was: 002-control-mtp1-engine-cold " in row.reason
    assert judged.verdict.verdict is Word.SETUP_FAILURE, "and no fail of the candidate's"


def test_one_control_that_ran_its_course_is_witness_enough(tmp_path: Path) -> None:
    session = Session(tmp_path, PAIRS).both(armed=True).control(where=WARM | {"pair": 1}, **DIED)
    judged = session.candidate(where=WARM | {"pair": 1}, late_kernels=(ONE,)).judge()
    assert judged.row(MONITOR, cache="warm").word is Word.FAIL


@pytest.mark.parametrize("name", [MONITOR, COMPILES])
def test_a_candidate_that_died_is_not_acquitted(tmp_path: Path, name: str) -> None:
    """What it was not asked any more may be late."""
    row = Session(tmp_path).both(armed=True).candidate(**DIED).judge().row(name)
    assert row.word is Word.NOT_TESTED
    ended = "001-candidate-mtp1-engine-cold ended early"
    assert row.reason.endswith(f", but the candidate was not asked everything: {ended}")


def test_one_candidate_that_ran_its_course_is_acquittal_enough(tmp_path: Path) -> None:
    judged = Session(tmp_path, PAIRS).both(armed=True).candidate(where=WARM | {"pair": 1}, **DIED).judge()
    assert judged.row(MONITOR, cache="warm").word is Word.PASS


def test_a_candidate_that_died_is_blamed_for_what_was_late_until_then(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(armed=True).candidate(late_kernels=(ONE,), **DIED).judge()
    assert judged.row(MONITOR).word is Word.FAIL


# --- compilations in the log -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("control", "candidate", "word"),
    [(0, 0, Word.PASS), (1, 1, Word.PASS), (2, 1, Word.PASS), (0, 1, Word.FAIL), (1, 3, Word.FAIL)],
)
def test_more_late_compilations_than_in_the_control_fail(
    tmp_path: Path, control: int, candidate: int, word: Word
) -> None:
    judged = Session(tmp_path).control(late_compiles=control).candidate(late_compiles=candidate).judge()
    row = judged.row(COMPILES)
    assert row.word is word
    assert (row.candidate or "").startswith(f"{candidate} compiled")
    assert judged.verdict.exit_code == (ExitCode.FAIL if word is Word.FAIL else ExitCode.PASS)


def test_a_late_compilation_names_the_step_that_it_fell_into(tmp_path: Path) -> None:
    row = Session(tmp_path).candidate(late_compiles=2).judge().row(COMPILES)
    assert row.candidate == "2 compiled (2 in first-prompt 96), 0 loaded, 0 new files"


def test_compilations_of_the_start_up_are_not_late(tmp_path: Path) -> None:
    row = Session(tmp_path).judge().row(COMPILES)
    assert (row.word, row.candidate) == (Word.PASS, "0 compiled, 0 loaded, 0 new files")


@pytest.mark.parametrize(
    "late",
    [
        {"late_files": 3},  # Triton writes files and no line
        {"late_loads": 1},  # compiled before, and first loaded while a user waits
    ],
)
@pytest.mark.parametrize("both", [0, 1])
def test_late_files_and_loads_warn_also_beside_equal_compilations(
    tmp_path: Path, late: dict[str, Any], both: int
) -> None:
    judged = Session(tmp_path).both(late_compiles=both).candidate(**late).judge()
    assert judged.row(COMPILES).word is Word.WARN
    assert judged.verdict.exit_code == ExitCode.PASS


@pytest.mark.parametrize("late", [{"late_files": 3}, {"late_loads": 1}])
def test_late_files_and_loads_of_the_control_are_not_the_candidates(tmp_path: Path, late: dict[str, Any]) -> None:
    assert Session(tmp_path / "both").both(**late).judge().row(COMPILES).word is Word.PASS
    assert Session(tmp_path / "one").control(**late).judge().row(COMPILES).word is Word.PASS


def test_an_arm_without_a_ready_launch_has_no_late_compilations_to_compare(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(stage="health").judge()
    assert judged.row(COMPILES).word is Word.NOT_TESTED


# --- what the caches are proven to be ----------------------------------------------------------------


def test_cold_and_warm_are_proven_by_misses_and_hits(tmp_path: Path) -> None:
    judged = Session(tmp_path, WARM_TOO).judge()
    assert judged.row("cache state", cache="cold").reason == "0 hits, 2 misses, 0 failed loads, 0 files at start"
    assert judged.row("cache state", cache="warm").reason == "2 hits, 0 misses, 0 failed loads, 5 files at start"
    assert {r.word for r in judged.rows("cache state")} == {Word.PASS}


IN_EAGER: dict[str, Any] = {"compiled": "none", "said_at_start": ("Enforce eager set, disabling torch.compile",)}
FOUND = IN_EAGER | {"kernel_files": (4, 0)}
IN_VLLM = "vllm/torch_compile_cache/7d31/rank_0_0/triton_cache/H/k.cubin"
CUTE_START = "[b12x cute.compile] compile-start number=1 target=b12x.k.K cache_key=0"
CUTE_MISS = "[b12x cute.compile] miss reason=cold target=b12x.k.K status=cold cache_key=0 spec_hash=1"


def test_an_eager_launch_is_warm_where_it_found_kernels_and_wrote_none(tmp_path: Path) -> None:
    """vLLM prints no hit then: ten warm launches on H200s, 294 files each, were called unproven."""
    judged = Session(tmp_path, WARM_TOO).both(where=WARM, kernel_files=(4, 0), **IN_EAGER).judge()
    state = judged.row("cache state", cache="warm")
    assert state.word is Word.PASS
    assert state.reason == "eager, so that only kernels are cached: 4 files of Triton at start, 0 written since"
    assert "server.log" in state.sources[0]
    assert "caches.json" in state.sources[1]


def test_graphs_that_are_written_again_make_no_warm_launch_a_cold_one(tmp_path: Path) -> None:
    """As on an H200 with CUDA graphs: Inductor writes nine of its files again, Triton none of 404."""
    again = {"vllm/torch_compile_cache/torch_aot_compile/7d31/inductor_cache/hh/51cd.best_config": (259, 2)}
    session = Session(tmp_path, WARM_TOO).both(where=WARM, kernel_files=(4, 0), cache_files=again)
    state = session.judge().row("cache state", cache="warm")
    assert (state.word, state.reason) == (Word.PASS, "2 hits, 0 misses, 0 failed loads, 9 files at start")


def test_what_other_libraries_wrote_stands_beside_the_hit(tmp_path: Path) -> None:
    """It may be a kernel, or the index of their cache that every start writes again."""
    session = Session(tmp_path, WARM_TOO).both(where=WARM, cache_files={"flashinfer/a.so": 9})
    state = session.judge().row("cache state", cache="warm")
    assert state.word is Word.PASS
    assert state.reason.endswith("5 files at start, 0 of Triton written since, and 1 in flashinfer")


@pytest.mark.parametrize(("written", "called"), [(0, "warm"), (2, "warm/recompiled")])
def test_an_eager_launch_that_died_before_it_was_ready_is_judged_by_its_end(
    tmp_path: Path, written: int, called: str
) -> None:
    """Else one dead launch of several would keep KV tokens and start-up of the living from being compared."""
    session = Session(tmp_path, PAIRS).both(where=WARM, **FOUND)
    died = {"stage": "health", "listed_ready": False, "kernel_files": (4, written)}
    judged = session.candidate(where=WARM | {"pair": 1}, **died).judge()
    [state] = [r for r in judged.rows("cache state") if r.cache != "cold"]
    assert (state.control, state.candidate) == ("warm", called)


@pytest.mark.parametrize(
    "touched", [{"flashinfer/ops.lock": 0}, {"flashinfer/jit.log": 9}, {"vllm/modelinfos/mimo.json": 9}]
)
def test_what_is_touched_by_every_start_is_no_compilation(tmp_path: Path, touched: dict[str, int]) -> None:
    session = Session(tmp_path, WARM_TOO).both(where=WARM, kernel_files=(4, 0), cache_files=touched, **IN_EAGER)
    assert session.judge().row("cache state", cache="warm").word is Word.PASS


@pytest.mark.parametrize(
    ("where", "does", "called", "why"),
    [
        (WARM, {"compiled": "none"}, "unproven", "the log shows no use of a compile cache"),
        (WARM, {"compiled": "miss"}, "recompiled", "0 hits, 2 misses"),
        (WARM, {"files_at_start": 0}, "unproven", "0 files at start"),
        (WARM, {"listings": False}, "unproven", "the cache folders were not listed"),
        (WARM, IN_EAGER | {"kernel_files": (0, 0)}, "unproven", "the log shows no use of a compile cache"),
        (WARM, IN_EAGER | {"kernel_files": (4, 2)}, "recompiled", "4 files of Triton at start, 2 written since"),
        (WARM, {"compiled": "none", "kernel_files": (4, 0)}, "unproven", "the log shows no use"),  # it has graphs
        # Triton's helpers are no kernels, and other libraries write kernels of their own.
        (WARM, IN_EAGER | {"found_files": ("triton/H/cuda_utils.so",)}, "unproven", "the log shows no use"),
        (WARM, FOUND | {"cache_files": {"flashinfer/a.so": 9}}, "unproven", "0 written since, and 1 in flashinfer;"),
        (WARM, FOUND | {"start_lines": (CUTE_MISS,)}, "recompiled", "and the log names a compilation"),
        (WARM, FOUND | {"start_lines": (CUTE_START,)}, "recompiled", "and the log names a compilation"),
        (WARM, FOUND | {"listed_ready": False}, "unproven", "were not listed at readiness"),
        (WARM, FOUND | {"cache_files": {"triton/k1.cubin": None}}, "unproven", "and 1 of them gone at readiness"),
        (WARM, FOUND | {"cache_files": {"triton/k1.cubin": (9, 2)}}, "recompiled", "at start, 1 written since"),
        (WARM, FOUND | {"kernel_entry": 9}, "unproven", "without their times"),
        (COLD, {"listings": False}, "unproven", "the cache folders were not listed"),
        (COLD, {"files_at_start": 3}, "warm", "claimed cold, but"),
        (COLD, {"compiled": "hit"}, "warm", "claimed cold, but"),
        (COLD, {"compiled": "hit miss"}, "warm", "claimed cold, but"),  # somebody else's cache, not listed
        (WARM, {"compiled": "hit miss"}, "recompiled", "2 hits, 2 misses"),
        # Graphs that were found, of kernels that were not.
        (WARM, {"kernel_files": (4, 2)}, "recompiled", "9 files at start, 2 of Triton written since"),
        (WARM, {"start_lines": (CUTE_MISS,)}, "recompiled", "5 files at start, and the log names a compilation"),
        (WARM, {"cache_files": {IN_VLLM: 9}}, "recompiled", "1 of Triton written since"),
    ],
)
def test_a_cache_is_called_what_it_is_proven_to_be(
    tmp_path: Path, where: dict[str, object], does: dict[str, Any], called: str, why: str
) -> None:
    judged = Session(tmp_path, WARM_TOO).both(where=where, **does).judge()
    state = judged.row("cache state", word=Word.NOTE)
    assert (state.cache, state.control, state.candidate) == (called, called, called)
    assert why in state.reason
    assert state.reason.endswith(f"not called {where['cache']}")
    # Every row of the cell, not only this one, carries the proven word.
    [other] = [str(c) for c in ("cold", "warm") if c != where["cache"]]
    assert sorted(str(r.cache) for r in judged.rows("start-up")) == sorted([called, other])


def test_a_cold_launch_may_hit_what_it_has_just_written_itself(tmp_path: Path) -> None:
    # Four ranks share one cache folder: the slower ones find what the first one has compiled.
    state = Session(tmp_path).both(compiled="miss hit").judge().row("cache state")
    assert (state.word, state.cache) == (Word.PASS, "cold")
    assert state.reason == "2 hits, 2 misses, 0 failed loads, 0 files at start"


COMPARED = ("KV tokens", "start-up", COMPILES)


def test_arms_that_started_from_different_caches_are_not_compared(tmp_path: Path) -> None:
    session = Session(tmp_path, WARM_TOO).candidate(where=WARM, compiled="miss", kv_tokens=1_000_000, late_compiles=2)
    judged = session.judge()
    for name in COMPARED:
        row = judged.row(name, cache="warm vs recompiled")
        assert row.word is Word.NOT_TESTED, name
        assert "different cache states" in row.reason
    # What does not depend on the caches still is.
    assert judged.row("identity, candidate vs control", cache="warm vs recompiled").word is Word.PASS


def test_states_are_compared_pair_by_pair(tmp_path: Path) -> None:
    # Over all launches both arms were once recompiled, and yet no pair is equal.
    session = Session(tmp_path, PAIRS).control(where=WARM | {"pair": 0}, compiled="miss")
    judged = session.candidate(where=WARM | {"pair": 1}, compiled="miss").judge()
    [kv] = [r for r in judged.rows("KV tokens") if r.cache != "cold"]
    assert kv.word is Word.NOT_TESTED


def test_pairs_of_equal_states_are_compared_although_the_states_differ_between_pairs(tmp_path: Path) -> None:
    judged = Session(tmp_path, PAIRS).both(where=WARM | {"pair": 1}, compiled="miss").judge()
    assert judged.row("KV tokens", cache="warm/recompiled").word is Word.PASS
