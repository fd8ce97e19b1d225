"""What the tracer shows: late kernels, and kernels that were warmed up for other constants than serving needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.evidence.bundle import Bundle
from harness.judge.case import read_case
from harness.observe.jit.ledger import Source
from harness.records import Row
from harness.words import ExitCode, Word

from .bundles import TRACED, Kernel, Session

LATE, MISMATCH = "late JIT (tracer)", "specialisation mismatch"
MISSED = "late JIT, missed by the monitor"
NAME = "_map_global_topk_to_gathered_ckv_kernel"
WARM: Kernel = (NAME, {"DCP_SIZE": 1, "DCP_INTERLEAVE": 1, "BLOCK": 1024})
NEEDED: Kernel = (NAME, {"DCP_SIZE": 4, "DCP_INTERLEAVE": 64, "BLOCK": 1024})
B3 = f"{NAME}: warm-up DCP_SIZE=1 DCP_INTERLEAVE=1; serving DCP_SIZE=4 DCP_INTERLEAVE=64"


def traced(folder: Path, **overrides: object) -> Session:
    return Session(folder, TRACED | overrides)


# --- late kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("control", "candidate", "word", "told"),
    [
        ((), (), Word.PASS, "no kernel is late that is not late in the control"),
        ((NEEDED,), (NEEDED,), Word.PASS, "no kernel is late that is not late in the control"),
        ((NEEDED,), (), Word.PASS, "no kernel is late that is not late in the control"),
        ((), (NEEDED,), Word.FAIL, f"new against control: {NAME}"),
        ((NEEDED,), (("other", {}),), Word.FAIL, "new against control: other"),
    ],
)
def test_a_kernel_that_only_the_candidate_compiles_late_fails(
    tmp_path: Path, control: tuple[Kernel, ...], candidate: tuple[Kernel, ...], word: Word, told: str
) -> None:
    judged = traced(tmp_path).control(served=control).candidate(served=candidate).judge()
    row = judged.row(LATE)
    assert (row.word, row.reason) == (word, told)
    assert judged.verdict.exit_code == (ExitCode.FAIL if word is Word.FAIL else ExitCode.PASS)


@pytest.mark.parametrize("name", [LATE, MISMATCH])
def test_a_control_whose_trace_launch_died_is_no_witness(tmp_path: Path, name: str) -> None:
    session = traced(tmp_path).candidate(warmed=(WARM,), served=(NEEDED,))
    judged = session.control(where={"trace": True}, stage="decode", ends_after=3).judge()
    row = judged.row(name)
    assert row.word is Word.NOT_TESTED
    assert ", but the control was not asked all that the candidate was" in row.reason


@pytest.mark.parametrize("name", [LATE, MISMATCH])
def test_a_candidate_whose_trace_launch_died_is_not_acquitted(tmp_path: Path, name: str) -> None:
    """Seen on an H200: it was cut off in its first prompts, and "warm-up covered what serving used" passed."""
    judged = traced(tmp_path).candidate(where={"trace": True}, stage="decode", ends_after=3).judge()
    row = judged.row(name)
    assert row.word is Word.NOT_TESTED
    assert ", but the candidate was not asked everything: " in row.reason


# --- what the monitor did not name ------------------------------------------------------------------


def missed(session: Session) -> list[Row]:
    return [row for row in session.judge().verdict.rows if row.name == MISSED]


def test_a_kernel_that_an_armed_monitor_is_silent_about_is_noted(tmp_path: Path) -> None:
    """Seen on an H200: one that the CuTe DSL compiled with options, which vLLM's monitor is not told of."""
    [row] = missed(traced(tmp_path).both(armed=True).candidate(served=(NEEDED,)))
    assert (row.word, row.control, row.candidate) == (Word.NOTE, "none", NAME)
    assert row.reason.startswith(f"{NAME}: it was armed and is silent about what the tracer saw")
    trace, log = row.sources
    assert (trace.split("/")[2], log.split("/")[2]) == ("trace", "server.log")


def test_one_that_both_name_is_not(tmp_path: Path) -> None:
    session = traced(tmp_path).both(armed=True).candidate(served=(NEEDED,), late_kernels=(NAME,))
    assert missed(session) == []


def test_a_method_of_the_kernel_is_its_name(tmp_path: Path) -> None:
    session = traced(tmp_path).both(armed=True)
    assert missed(session.candidate(served=(NEEDED,), late_kernels=(f"{NAME}.kernel",))) == []


def test_a_monitor_that_was_not_armed_missed_nothing(tmp_path: Path) -> None:
    assert missed(traced(tmp_path).both(armed=False).candidate(served=(NEEDED,))) == []


def test_what_the_warm_up_compiled_was_not_its_to_name(tmp_path: Path) -> None:
    assert missed(traced(tmp_path).both(armed=True).candidate(warmed=(WARM,))) == []


def test_the_row_names_the_line_of_the_tracers_file(tmp_path: Path) -> None:
    session = traced(tmp_path).candidate(served=(NEEDED,))
    [source] = session.judge().row(LATE).sources
    file, _, line = source.rpartition(":")
    assert NAME in (session.root / "bundle" / file).read_text("utf-8").splitlines()[int(line) - 1]


def test_what_the_warm_up_compiles_is_not_late(tmp_path: Path) -> None:
    row = traced(tmp_path).candidate(warmed=(WARM,)).judge().row(LATE)
    assert (row.word, row.candidate) == (Word.PASS, "none")


@pytest.mark.parametrize(("armed", "word"), [(True, Word.PASS), (False, Word.FAIL)])
def test_without_a_monitor_a_kernel_is_late_from_kv_sizing_on(tmp_path: Path, armed: bool, word: Word) -> None:
    session = traced(tmp_path).both(armed=armed).candidate(prepared=(WARM,))
    assert session.judge().row(LATE).word is word


@pytest.mark.parametrize("library", ["Triton", "CuTeDSL"])
def test_what_is_loaded_from_disk_under_a_request_is_late_too(tmp_path: Path, library: str) -> None:
    loads: dict[str, Any] = {"served": (("PrefillKernel", {}),), "kernels_from": (library, "disk")}
    bundle = traced(tmp_path / "one").candidate(**loads).build()
    [line] = [x for found in read_case(bundle).ledgers.values() for x in found.late(Source.TRACER)]
    assert (line.what, line.kernel, line.phase) == ("loaded from disk", "PrefillKernel", "first-prompt 96")
    row = traced(tmp_path / "two").candidate(**loads).judge().row(LATE)
    assert (row.word, row.reason) == (Word.FAIL, "new against control: PrefillKernel")
    # A library that compiles it in the control and finds it in the candidate has one name for it.
    both = traced(tmp_path / "three").control(served=loads["served"]).candidate(**loads).judge().row(LATE)
    assert both.word is Word.PASS


def test_an_object_that_could_not_be_read_is_told_as_that_and_not_late(tmp_path: Path) -> None:
    failed = (
        '{"record":"kernel","event":"compile","backend":"CuTeDSL","kernel":"k","begin_ns":99,"end_ns":99,"pid":8,'
        '"error":"DSLRuntimeError","origin":"disk"}\n'
    )
    bundle = traced(tmp_path).candidate(trace_text=failed).build()
    [line] = [x for found in read_case(bundle).ledgers.values() for x in found.lines if x.kernel == "k"]
    assert (line.what, line.late) == ("load from disk ended in DSLRuntimeError", False)


def test_a_compilation_that_failed_is_not_late(tmp_path: Path) -> None:
    failed = (
        '{"record":"kernel","event":"compile","backend":"Triton","kernel":"k","begin_ns":99999999999999,'
        '"end_ns":99999999999999,"pid":8,"error":"OutOfResources"}\n'
    )
    assert traced(tmp_path).candidate(trace_text=failed).judge().row(LATE).word is Word.PASS


# --- what the tracer cannot see ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ({"traced": "changed"}, "not seen by this source: a hook does not fit this version"),
        ({"traced": ""}, "not seen by this source: no process of the server was traced"),
        ({"traced": "absent"}, "not seen by this source: no kernel library was imported (Triton absent)"),
        ({"traced": "waiting"}, "not seen by this source: no kernel library was imported (Triton waiting)"),
        ({"trace_text": "no JSON\n"}, "not seen by this source: 1 lines of the tracer could not be read"),
        (
            {"trace_text": '{"record":"fault","place":"triton.compile","error":"KeyError: 1"}\n'},
            "not seen by this source: the tracer failed: triton.compile: KeyError: 1",
        ),
    ],
)
@pytest.mark.parametrize("name", [LATE, MISMATCH])
def test_a_source_that_sees_nothing_is_no_none(tmp_path: Path, does: dict[str, Any], told: str, name: str) -> None:
    both = traced(tmp_path / "both").both(**does).judge().row(name)
    assert both.word is Word.NOT_TESTED
    assert told in both.reason
    one = traced(tmp_path / "one").candidate(**does).judge()
    assert (one.row(name).word, one.verdict.exit_code) == (Word.VOID, ExitCode.VOID)
    assert told in (one.row(name).candidate or "")


@pytest.mark.parametrize("name", [LATE, MISMATCH])
def test_a_plan_without_a_trace_has_not_tested_it(tmp_path: Path, name: str) -> None:
    row = Session(tmp_path).judge().row(name)
    assert (row.word, row.reason) == (Word.NOT_TESTED, "the plan has no trace launch ([plan] trace = false)")


def test_a_trace_launch_that_died_says_so(tmp_path: Path) -> None:
    judged = traced(tmp_path).candidate(where={"trace": True}, stage="health").judge()
    row = judged.row(MISMATCH)
    assert (row.word, row.reason) == (
        Word.NOT_TESTED,
        "the trace launch did not become ready: 004-candidate-mtp1-engine-cold-trace",
    )


def test_a_trace_launch_is_in_no_other_row(tmp_path: Path) -> None:
    """The tracer changes the process, so neither speed nor anything else is taken from it."""
    plain = Session(tmp_path / "plain").judge()
    session = traced(tmp_path / "traced").both(where={"trace": True}, speed=0.5, kv_tokens=1, armed=True)
    judged = session.judge()
    rows, others = ([r for r in v.verdict.rows if r.mode and r.name not in (LATE, MISMATCH)] for v in (judged, plain))
    assert rows == others


# --- specialisation mismatch ------------------------------------------------------------------------


def test_the_bug_of_the_origin_is_named_exactly(tmp_path: Path) -> None:
    """Warm-up read an attribute that was not there, fell back to size 1, and the prompt needed 4."""
    session = traced(tmp_path).control(served=(NEEDED,)).candidate(warmed=(WARM,), served=(NEEDED,))
    judged = session.judge()
    row = judged.row(MISMATCH)
    assert (row.word, row.reason, row.control, row.candidate) == (Word.FAIL, B3, "none", B3)
    assert len(row.sources) == 2
    assert judged.verdict.exit_code == ExitCode.FAIL
    assert judged.row(LATE).word is Word.PASS, "nothing is late that the control does not have"


def test_a_warm_up_that_covers_what_is_served_is_no_mismatch(tmp_path: Path) -> None:
    # A kernel that is compiled already is not compiled again, so the tracer sees it once.
    row = traced(tmp_path).candidate(warmed=(WARM, NEEDED)).judge().row(MISMATCH)
    assert (row.word, row.reason) == (Word.PASS, "warm-up covered what serving used")


def test_a_mismatch_that_the_control_has_too_does_not_fail(tmp_path: Path) -> None:
    row = traced(tmp_path).both(warmed=(WARM,), served=(NEEDED,)).judge().row(MISMATCH)
    assert (row.word, row.reason, row.candidate) == (Word.PASS, "none that the control does not have", B3)


def test_a_mismatch_of_other_constants_than_the_controls_fails(tmp_path: Path) -> None:
    other: Kernel = (NAME, {"DCP_SIZE": 8, "DCP_INTERLEAVE": 64, "BLOCK": 1024})
    session = traced(tmp_path).both(warmed=(WARM,)).control(served=(NEEDED,)).candidate(served=(other,))
    row = session.judge().row(MISMATCH)
    assert (row.word, row.reason) == (
        Word.FAIL,
        f"{NAME}: warm-up DCP_SIZE=1 DCP_INTERLEAVE=1; serving DCP_SIZE=8 DCP_INTERLEAVE=64",
    )


def test_what_is_compiled_between_kv_sizing_and_ready_is_warm_up(tmp_path: Path) -> None:
    row = traced(tmp_path).candidate(prepared=(WARM,), served=(NEEDED,)).judge().row(MISMATCH)
    assert row.candidate == B3


# --- the ledger -------------------------------------------------------------------------------------


def ledger_of(bundle: Bundle, launch: str) -> list[tuple[str, str | None, str, bool]]:
    lines = read_case(bundle).ledgers[launch].lines
    return [(x.what, x.kernel, x.phase, x.late) for x in lines if x.source is Source.TRACER]


def test_each_event_has_its_phase(tmp_path: Path) -> None:
    first: Kernel = ("in_kv", {})
    session = traced(tmp_path).both(armed=True).candidate(warmed=(WARM,), prepared=(first,), served=(NEEDED,))
    assert ledger_of(session.build(), "004-candidate-mtp1-engine-cold-trace") == [
        ("compiled", NAME, "start-up, before KV sizing", False),
        ("compiled", "in_kv", "start-up, KV sizing to ready", False),
        ("compiled", NAME, "first-prompt 96", True),
    ]


def test_an_event_knows_its_request_its_rank_and_what_it_took(tmp_path: Path) -> None:
    bundle = traced(tmp_path).candidate(served=(NEEDED,)).build()
    [line] = read_case(bundle).ledgers["004-candidate-mtp1-engine-cold-trace"].late(Source.TRACER)
    assert (line.specialisation, line.ranks) == ("DCP_SIZE=4 DCP_INTERLEAVE=64 BLOCK=1024", ("rank 0",))
    assert line.seconds == pytest.approx(0.05)
    assert line.taken_mib == 50


def test_a_launch_without_the_tracer_says_that_it_was_not_traced(tmp_path: Path) -> None:
    ledgers = read_case(traced(tmp_path).build()).ledgers
    assert {x.tracer for i, x in ledgers.items() if "trace" not in i} == {"not traced"}
    assert {x.tracer for i, x in ledgers.items() if "trace" in i} == {"seen"}
