"""Controls that are run by a `qualify` which is none, so that every way to end is met."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.controls.record import Outcome, Result, SelfTestReport
from harness.controls.run import new_folder, run_controls
from harness.controls.summary import closing_lines, result_line, summary_text
from harness.evidence.bundle import read_record
from harness.words import ExitCode, Word

from .verdicts import DIES, LESS, SAME, SERVED, verdict

BEYOND = ("KV tokens", Word.FAIL, "-50 %: beyond the margin")


def leaves(text: str | None, code: int) -> Sequence[str]:
    """A program that leaves a bundle with this verdict, none where there is no text, and ends with a code."""
    lines = [
        "import os, pathlib, sys, uuid",
        "print('so it ended')",
        *(
            []
            if text is None
            else [
                "root = pathlib.Path(os.environ['QUALIFY_RESULTS'], uuid.uuid4().hex)",
                "root.mkdir()",
                "(root / 'plan.json').write_text('{}')",
                f"(root / 'verdict.json').write_text({text!r})" if text else "",
            ]
        ),
        f"sys.exit({code})",
    ]
    return (sys.executable, "-c", "\n".join(lines))


def said(*rows: tuple[str, Word, str]) -> tuple[str, int]:
    found = verdict(*rows)
    return json.dumps(found.model_dump(mode="json")), found.exit_code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_folder(tmp_path / "results")


def only(report: SelfTestReport) -> Result:
    [result] = report.results
    return result


def test_what_is_caught_is_written_down_beside_its_bundle(folder: Path) -> None:
    told: list[Result] = []
    report = run_controls([LESS], folder, None, program=leaves(*said(SERVED, BEYOND)), tell=told.append)
    result = only(report)
    assert (result.outcome, result.why, report.exit_code) == (Outcome.CAUGHT, "", ExitCode.PASS)
    assert told == [result]
    assert read_record(folder / "selftest.json", SelfTestReport) == report
    assert (folder / str(result.bundle) / "verdict.json").is_file()
    assert (folder / "inputs" / "less-kv" / "qualify.log").read_text() == "so it ended\n"
    assert result.command[:2] == ("qualify", "run")
    assert not (folder / ".work").exists(), "only evidence stays"


def test_a_fault_that_is_not_seen_is_named_and_costs_the_exit_code(folder: Path) -> None:
    passing = leaves(*said(SERVED, ("KV tokens", Word.PASS, "equal")))
    report = run_controls([SAME, LESS], folder, None, program=passing)
    assert [r.outcome for r in report.results] == [Outcome.PASSED, Outcome.NOT_CAUGHT]
    assert report.exit_code == ExitCode.FAIL
    assert closing_lines(report) == [
        "NOT CAUGHT: this harness does not see these faults, so do not trust its verdicts: less-kv",
        "1 of 2 controls are as they must be (exit code 1)",
    ]
    assert "NOT CAUGHT" in (folder / "summary.md").read_text("utf-8")
    assert "expected KV tokens: fail" in result_line(report.results[1])


def test_equal_arms_that_fail_are_a_false_alarm(folder: Path) -> None:
    report = run_controls([SAME], folder, None, program=leaves(*said(SERVED, BEYOND)))
    assert only(report).outcome is Outcome.FALSE_ALARM
    assert report.exit_code == ExitCode.FAIL
    assert closing_lines(report)[0].endswith("do not trust its verdicts: same")


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (leaves(None, 3), "`qualify run` opened no session (exit code 3): so it ended"),
        (leaves("", 4), "`qualify run` left no verdict (exit code 4): "),
        (leaves('{"schema_version": 1}', 0), "`qualify run` left no verdict (exit code 0): "),
        (leaves(*said(("served to the end", Word.SETUP_FAILURE, "no engine"))), "served to the end: no engine"),
    ],
    ids=["no session", "no verdict", "a broken one", "a setup failure"],
)
@pytest.mark.parametrize("control", [SAME, LESS, DIES], ids=lambda c: c.name)
def test_a_control_that_could_not_run_is_never_a_pass(
    folder: Path, control: object, program: Sequence[str], told: str
) -> None:
    assert control in (SAME, LESS, DIES)
    report = run_controls([c for c in (SAME, LESS, DIES) if c is control], folder, None, program=program)
    assert only(report).outcome is Outcome.SETUP_FAILURE
    assert told in only(report).why
    assert report.exit_code == ExitCode.SETUP_FAILURE


def test_an_exit_code_that_says_otherwise_than_the_verdict_is_not_caught(folder: Path) -> None:
    """A script sees nothing but the code."""
    text, _ = said(SERVED, BEYOND)
    report = run_controls([LESS], folder, None, program=leaves(text, 0))
    assert only(report).outcome is Outcome.NOT_CAUGHT
    assert only(report).why == "`qualify run` ended with code 0, and its verdict says 1"


def test_a_control_that_a_busy_machine_did_not_measure_is_run_once_more_and_both_stay(folder: Path) -> None:
    late = ("client kept up", Word.WARN, "woke late")
    report = run_controls([LESS], folder, None, program=leaves(*said(SERVED, late, ("KV tokens", Word.NOT_TESTED, ""))))
    result = only(report)
    assert result.outcome is Outcome.SETUP_FAILURE, "twice is enough"
    [before] = result.before
    assert {before, result.bundle} == {f.parent.name for f in folder.glob("*/verdict.json")}


def test_a_fault_that_was_not_seen_weighs_more_than_one_that_could_not_be_shown() -> None:
    results = [result("a", Outcome.SETUP_FAILURE), result("b", Outcome.NOT_CAUGHT)]
    assert report_of(results).exit_code == ExitCode.FAIL


def test_an_incomplete_self_test_passes_nothing() -> None:
    report = report_of([result("a", Outcome.CAUGHT)], planned=("a", "b"))
    assert report.exit_code == ExitCode.SETUP_FAILURE
    assert "not come to: b" in closing_lines(report)
    assert report_of([], planned=()).exit_code == ExitCode.SETUP_FAILURE


def test_a_reason_cannot_break_out_of_the_table() -> None:
    text = summary_text(report_of([result("a", Outcome.NOT_CAUGHT, why="| <b> @somebody `x`\nnext")]))
    [row] = [line for line in text.splitlines() if line.startswith("| a |")]
    assert "\\|" in row
    assert "<b>" not in row
    assert "@somebody" not in row


def test_two_self_tests_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    folders = {new_folder(tmp_path) for _ in range(3)}
    assert len(folders) == 3
    assert all((f / ".work").resolve() == (tmp_path / ".work").resolve() for f in folders)


def result(control: str, outcome: Outcome, why: str = "") -> Result:
    return Result(
        control=control,
        worse="x",
        engine="an engine",
        expected=(),
        got=(),
        verdict=None,
        outcome=outcome,
        why=why,
        bundle=None,
        command=(),
        seconds=1.0,
    )


def report_of(results: Sequence[Result], planned: tuple[str, ...] | None = None) -> SelfTestReport:
    names = tuple(r.control for r in results) if planned is None else planned
    return SelfTestReport(harness="c", profile="p", planned=names, results=tuple(results))
