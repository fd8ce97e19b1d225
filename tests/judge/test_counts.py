"""Requests in full, and the server's counters against the client's: what is wrong is used nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.judge.window import WindowEvidence
from harness.observe.prometheus import Delta
from harness.records import RequestRecord, Row, Usage, Window
from harness.words import ExitCode, Step, Word

from .asked import asked
from .bundles import COURSE, WARM, WARM_TOO, Judged, Session, stack

REQUESTS, COUNTS, KNOWN = "requests served in full", "counts agree", "known answers"
FAULTS = {
    "miscount": "generation_tokens: the client counts 30, the server 31",
    "reset": "the server's counters were reset within the window",
    "no-scrape": "a scrape failed, so the server's counts are unknown",
    "prefix-hit": "prefix_hits: the client counts 0, the server 16",
    "foreign": "requests: the client counts 1, the server 2",
    "preemption": "preemptions: the client counts 0, the server 1",
    "lost-draft": "cannot give 30 tokens",
}


def side(row: Row, arm: str) -> str | None:
    return row.control if arm == "control" else row.candidate


def decode_figures(judged: Judged, arm: str, **where: object) -> set[str | None]:
    names = ("decode", "decode steps", "tokens per step", "accepted / drafted, decode")
    return {side(judged.row(name, **where), arm) for name in names}


# --- the server counts otherwise ---------------------------------------------------------------------


@pytest.mark.parametrize("arm", ["control", "candidate"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_window_whose_counts_disagree_is_void_and_its_figures_are_used_nowhere(
    tmp_path: Path, fault: str, arm: str
) -> None:
    judged = getattr(Session(tmp_path), arm)(faults={"decode/96/1": fault}).judge()
    row = judged.row(COUNTS)
    assert row.word is Word.VOID
    assert f"-{arm}-" in row.reason
    assert f"decode/96/1: {FAULTS[fault]}" in row.reason or fault == "lost-draft"
    assert FAULTS[fault] in row.reason
    assert side(row, arm) == "12 of 13"
    assert (judged.verdict.verdict, judged.verdict.exit_code) == (Word.VOID, ExitCode.VOID)

    # One of the two passes is void, and the other alone would be a selection.
    assert decode_figures(judged, arm, context_tokens=96) == {None}
    assert None not in decode_figures(judged, arm, context_tokens=48)
    [other] = {"control", "candidate"} - {arm}
    assert None not in decode_figures(judged, other, context_tokens=96)
    # Nor are void counts held against the model's rule: the outputs still are.
    known = judged.row(KNOWN)
    assert (known.word, side(known, arm)) == (Word.PASS, "11 of 12 windows exact")


@pytest.mark.parametrize("window", ["first-prompt/48/0", "prefill/48/0", "identity/0/1", "readiness/0/0"])
def test_every_window_is_counted(tmp_path: Path, window: str) -> None:
    judged = Session(tmp_path).candidate(faults={window: "foreign"}).judge()
    assert judged.row(COUNTS).word is Word.VOID
    for name in ("first prompt", "prefill"):
        figure = judged.row(name, context_tokens=48).candidate
        assert (figure is None) == window.startswith(name.replace(" ", "-")), name


def test_a_foreign_request_of_the_ladder_voids_too(tmp_path: Path) -> None:
    session = Session(tmp_path, {"plan.warmups": ["primed"]}).candidate(faults={"ladder/0/1": "foreign"})
    assert "ladder/0/1: requests" in session.judge().row(COUNTS).reason


def test_a_void_pair_is_left_out_of_the_test_of_speed(tmp_path: Path) -> None:
    overrides: dict[str, object] = {"plan.caches": ["warm"], "plan.pairs": 4}
    session = Session(tmp_path, overrides).candidate(where=WARM | {"pair": 2}, faults={"prefill/96/0": "foreign"})
    row = session.judge().row("prefill", cache="warm", context_tokens=96)
    assert row.candidate == "10,000.0 / 10,000.0 / - / 10,000.0"
    assert "3 pairs" in row.reason


# --- one window, by hand -----------------------------------------------------------------------------


def request(tokens: int = 4, **changes: Any) -> RequestRecord:
    place = {"window": "decode/48/0", "step": Step.DECODE, "context_tokens": 48}
    events = {"event_ns": tuple(range(20, 20 + tokens)), "event_tokens": (1,) * tokens}
    return asked(prompt_tokens=48, tokens=tokens, **{**place, **events, **changes})


WINDOW = Window(
    window="decode/48/0",
    step=Step.DECODE,
    context_tokens=48,
    pass_number=0,
    begin_ns=0,
    end_ns=100,
    scrape_before="001.prom",
    scrape_after="002.prom",
)
GOOD = {"requests": 1, "prompt_tokens": 48, "generation_tokens": 4, "prefix_hits": 0, "preemptions": 0}


def evidence(counts: dict[str, int] | None, *, draft_tokens: int = 0, reset: bool = False) -> WindowEvidence:
    delta = None if counts is None else Delta(counts, reset)
    return WindowEvidence(WINDOW, (request(),), delta, draft_tokens)


def test_counts_that_agree_are_no_fault() -> None:
    assert evidence(GOOD).fault is None


@pytest.mark.parametrize("name", GOOD)
def test_a_counter_that_is_off_or_missing_is_a_fault(name: str) -> None:
    assert evidence(GOOD | {name: GOOD[name] + 1}).fault == (
        f"{name}: the client counts {GOOD[name]}, the server {GOOD[name] + 1}"
    )
    assert evidence({k: v for k, v in GOOD.items() if k != name}).fault == f"the server does not count {name}"


def test_unknown_counts_are_a_fault_and_no_zero() -> None:
    assert evidence(None).counted("requests") is None
    assert evidence(GOOD, reset=True).counted("requests") is None
    assert "scrape failed" in (evidence(None).fault or "")
    assert "reset" in (evidence(GOOD, reset=True).fault or "")


@pytest.mark.parametrize(
    ("draft_tokens", "drafts", "accepted", "told"),
    [
        (1, 2, 1, None),  # 1 + 2 + 1 = 4
        (1, 2, 2, None),  # one accepted token was trimmed
        (1, 2, 0, "1 requests + 2 drafts + 0 accepted cannot give 4 tokens"),
        (1, 3, 2, "cannot give"),
        (1, 0, 0, "the server runs with MTP and drafted nothing for 4 tokens"),
        (3, 0, 0, "the server runs with MTP and drafted nothing for 4 tokens"),
        (3, 1, 2, None),
    ],
)
def test_drafts_that_cannot_give_the_tokens_are_a_fault(
    draft_tokens: int, drafts: int, accepted: int, told: str | None
) -> None:
    fault = evidence(GOOD | {"drafts": drafts, "accepted": accepted}, draft_tokens=draft_tokens).fault
    assert fault is None if told is None else told in (fault or "")


def test_a_server_with_mtp_that_counts_no_drafts_is_a_fault() -> None:
    assert evidence(GOOD, draft_tokens=1).fault == "the server runs with MTP and does not count drafts"


def test_one_token_needs_no_draft() -> None:
    window = WindowEvidence(
        WINDOW, (request(1),), Delta(GOOD | {"generation_tokens": 1, "drafts": 0, "accepted": 0}, False), 1
    )
    assert window.fault is None


@pytest.mark.parametrize(
    "changes",
    [
        {"status": 500},
        {"status": None},
        {"error": "the stream ended without [DONE]"},
        {"finish_reason": "stop"},
        {"finish_reason": None},
        {"usage": None},
        {"usage": Usage(prompt_tokens=48, completion_tokens=3)},
        {"usage": Usage(prompt_tokens=47, completion_tokens=4)},
        {"event_tokens": (1, 1, 1)},
        {"asked_tokens": 5},
    ],
)
def test_a_request_is_complete_only_if_everything_says_so(changes: dict[str, Any]) -> None:
    assert request().complete
    assert not request(**changes).complete
    window = WindowEvidence(WINDOW, (request(**changes),), Delta(GOOD, False), 0)
    assert "was not served in full" in (window.fault or "")


# --- requests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["short", "http_500"])
def test_a_request_that_is_short_in_the_candidate_fails(tmp_path: Path, kind: str) -> None:
    short: dict[str, Any] = {kind: ("decode/96/0",)}
    judged = Session(tmp_path).candidate(**short).judge()
    row = judged.row(REQUESTS)
    assert (row.word, row.control, row.candidate) == (Word.FAIL, "17 of 17", "16 of 17")
    assert "decode/96/0" in row.reason
    assert judged.verdict.exit_code == ExitCode.FAIL
    assert decode_figures(judged, "candidate", context_tokens=96) == {None}


@pytest.mark.parametrize("kind", ["short", "http_500"])
def test_a_request_that_is_short_in_the_control_voids(tmp_path: Path, kind: str) -> None:
    short: dict[str, Any] = {kind: ("decode/96/0",)}
    judged = Session(tmp_path).control(**short).judge()
    row = judged.row(REQUESTS)
    assert row.word is Word.VOID
    assert row.reason.startswith("the control did not serve in full: ")
    assert judged.row(KNOWN).word is Word.VOID
    assert judged.row("identity, measured outputs", context_tokens=96).word is Word.NOT_TESTED
    assert judged.verdict.exit_code == ExitCode.VOID


def test_a_control_that_is_short_too_keeps_the_blame_from_the_candidate(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(short=("decode/96/0",)).judge()
    assert judged.row(REQUESTS).word is Word.VOID
    assert judged.verdict.exit_code == ExitCode.VOID


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_arms_that_were_not_asked_the_same_are_void(tmp_path: Path, arm: str) -> None:
    # A candidate whose decode passes did not run would pass for one that lost nothing.
    judged = getattr(Session(tmp_path), arm)(course=tuple(s for s in COURSE if s is not Step.DECODE)).judge()
    row = judged.row(REQUESTS)
    assert row.word is Word.VOID
    assert "the arms were not asked the same: request 0 of decode/48/0" in row.reason
    assert f"-{'candidate' if arm == 'control' else 'control'}-" in row.reason
    assert judged.verdict.exit_code == ExitCode.VOID


def test_steps_that_neither_arm_was_asked_are_no_difference(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(course=(Step.PREFILL,)).judge()
    assert judged.row(REQUESTS).word is Word.PASS
    assert judged.verdict.exit_code == ExitCode.PASS


def test_a_launch_that_failed_was_asked_less_and_that_is_no_second_fault(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(stage="after ready", ends_after=2).judge()
    assert judged.row(REQUESTS).word is Word.PASS


# --- times that are the client's ---------------------------------------------------------------------

KEPT_UP = "client kept up"


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_events_that_were_read_in_a_burst_give_no_rate_and_spoil_no_count(tmp_path: Path, arm: str) -> None:
    # The host stopped the client for a while: the stream looks far faster than any engine is.
    session = Session(tmp_path, {"course.decode_output_tokens": 60})
    judged = getattr(session, arm)(burst=("decode/96/0",)).judge()
    row = judged.row(KEPT_UP)
    assert (row.word, side(row, arm)) == (Word.WARN, "9 of 10")
    assert "decode/96/0" in row.reason
    for name in ("decode", "decode steps"):
        assert side(judged.row(name, context_tokens=96), arm) is None
    per_step = judged.row("tokens per step", context_tokens=96)
    assert per_step.control == per_step.candidate is not None  # from counts, which are as good as ever
    assert "steps/s unknown, tokens/step +0.0%" in judged.row("decode", context_tokens=96).reason
    assert judged.row("accepted / drafted, decode", context_tokens=96).word is Word.PASS
    assert judged.row(COUNTS).word is Word.PASS
    assert judged.verdict.exit_code == ExitCode.PASS


def test_steps_apart_from_each_other_are_the_servers(tmp_path: Path) -> None:
    assert Session(tmp_path).judge().row(KEPT_UP).word is Word.PASS


# --- errors in the log -------------------------------------------------------------------------------

ERRORS = "errors while serving"


@pytest.mark.parametrize(
    ("control", "candidate", "word"),
    [
        ((), (), Word.PASS),
        ((), ("CUDA error: illegal memory access",), Word.FAIL),
        (("a nuisance 17",), ("a nuisance 2048",), Word.WARN),
        (("a nuisance",), (), Word.WARN),
        (("a nuisance",), ("a nuisance", "CUDA error: illegal memory access"), Word.FAIL),
        (("at 0x7f00aa00",), ("at 0x7f11bb22", "at 0x7f11cc33"), Word.WARN),
    ],
)
def test_an_error_that_only_the_candidate_prints_fails(
    tmp_path: Path, control: tuple[str, ...], candidate: tuple[str, ...], word: Word
) -> None:
    judged = Session(tmp_path).control(errors=control).candidate(errors=candidate).judge()
    row = judged.row(ERRORS)
    assert (row.word, row.control, row.candidate) == (word, str(len(control)), str(len(candidate)))
    assert judged.verdict.exit_code == (ExitCode.FAIL if word is Word.FAIL else ExitCode.PASS)
    if word is Word.FAIL:
        assert "CUDA error" in row.reason


def test_errors_before_readiness_and_after_the_stop_are_no_errors_while_serving(tmp_path: Path) -> None:
    noisy: dict[str, Any] = {"errors_after_stop": ("EngineCore died",), "errors_at_start": ("a probe failed",)}
    assert Session(tmp_path).candidate(**noisy).judge().row(ERRORS).word is Word.PASS


def test_an_arm_that_never_served_has_printed_no_error_while_serving(tmp_path: Path) -> None:
    assert Session(tmp_path).candidate(stage="health").judge().row(ERRORS).word is Word.NOT_TESTED


# --- checks of the suites ----------------------------------------------------------------------------

CHECK = ("test_own.py::test_mine", 48, "the answer is 41\nand more")


def test_a_check_that_fails_in_the_candidate_alone_fails(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(failed_checks=(CHECK,)).judge()
    row = judged.row("check test_own.py::test_mine", context_tokens=48)
    assert (row.word, row.reason) == (Word.FAIL, "the answer is 41")
    assert judged.verdict.exit_code == ExitCode.FAIL


@pytest.mark.parametrize("arms", ["control", "both"])
def test_a_check_that_fails_in_the_control_too_is_a_note(tmp_path: Path, arms: str) -> None:
    judged = getattr(Session(tmp_path), arms)(failed_checks=(CHECK,)).judge()
    row = judged.row("check test_own.py::test_mine")
    assert row.word is Word.NOTE
    assert "not the candidate's doing" in row.reason
    assert judged.verdict.exit_code == ExitCode.PASS


def test_the_same_check_at_another_context_is_another_check(tmp_path: Path) -> None:
    name, _, message = CHECK
    session = Session(tmp_path).control(failed_checks=(CHECK,)).candidate(failed_checks=((name, 96, message),))
    judged = session.judge()
    assert judged.row(f"check {name}", context_tokens=48).word is Word.NOTE
    assert judged.row(f"check {name}", context_tokens=96).word is Word.FAIL


def test_checks_that_pass_make_no_row(tmp_path: Path) -> None:
    assert not [r for r in Session(tmp_path, WARM_TOO).judge().verdict.rows if r.name.startswith("check ")]


def test_an_acceptance_without_drafts_in_one_arm_is_not_tested(tmp_path: Path) -> None:
    judged = Session(tmp_path, candidate=stack("same")).candidate(faults={"identity/0/0": "miscount"}).judge()
    row = judged.row("accepted / drafted, identity prompts")
    assert (row.word, row.candidate) == (Word.NOT_TESTED, None)
