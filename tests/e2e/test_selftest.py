"""`qualify selftest --quick` as a user runs it; and a harness that is blind, which must say so of every control."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.controls.control import Control
from harness.controls.outcome import outcome_of
from harness.controls.record import Outcome, Result, SelfTestReport
from harness.controls.run import new_folder, run_controls
from harness.controls.summary import closing_lines
from harness.controls.table import CONTROLS
from harness.evidence.bundle import Bundle, read_record
from harness.judge import verdict as judging
from harness.judge.case import Case
from harness.records import Row
from harness.words import ExitCode, Word

from .sessions import Finished, left_running, run

pytestmark = pytest.mark.xdist_group("selftest")

BLIND = """
import sys
from harness.judge import verdict
from harness.words import Word

def blind(subject):
    return lambda case: (row.model_copy(update={"word": Word.PASS}) for row in subject(case))

verdict.SUBJECTS = tuple(map(blind, verdict.SUBJECTS))
from harness.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A `qualify` whose every gate passes."""

every_control = pytest.mark.parametrize("control", CONTROLS, ids=lambda c: c.name)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Path, SelfTestReport]:
    """Every control, on the built-in server."""
    results = tmp_path_factory.mktemp("selftest")
    done = run(results, "selftest", "--quick", program=("-m", "harness.cli"), timeout_s=600)
    [folder] = results.glob("selftest-*")
    return done, folder, read_record(folder / "selftest.json", SelfTestReport)


def result(report: SelfTestReport, control: Control) -> Result:
    [found] = [r for r in report.results if r.control == control.name]
    return found


@every_control
def test_every_control_is_caught_and_named(quick: tuple[Finished, Path, SelfTestReport], control: Control) -> None:
    done, folder, report = quick
    found = result(report, control)
    if control.name == "deeper" and "too busy" in found.why:
        assert found.outcome is Outcome.SETUP_FAILURE, "a rate that was not measured is not judged"
        return
    assert found.outcome is (Outcome.CAUGHT if control.worse else Outcome.PASSED), (found.why, done.out)
    assert found.why == ""
    assert Bundle(folder / str(found.bundle)).verdict().verdict is found.verdict
    assert {g.word for g in found.got} == {e.word for e in control.expects}


def test_the_table_is_printed_and_kept(quick: tuple[Finished, Path, SelfTestReport]) -> None:
    done, folder, report = quick
    assert report.complete
    assert done.code == report.exit_code
    for control in CONTROLS:
        assert f"\n{control.name} " in done.out
        assert f"| {control.name} |" in (folder / "summary.md").read_text("utf-8")
    assert done.out.strip().endswith(closing_lines(report)[-1])
    assert not left_running(folder)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[Control], None]:
    """Breaks the gates that a control is for: what they find, they call a pass; equal arms, they fail."""

    def break_(control: Control) -> None:
        names = {e.row for e in control.expects if e.word is not Word.PASS or not control.worse}
        word = Word.PASS if control.worse else Word.FAIL

        def blind(subject: Callable[[Case], Iterator[Row]]) -> Callable[[Case], Iterator[Row]]:
            return lambda case: (
                row.model_copy(update={"word": word}) if row.name in names else row for row in subject(case)
            )

        monkeypatch.setattr(judging, "SUBJECTS", tuple(map(blind, judging.SUBJECTS)))

    return break_


@every_control
def test_with_its_gate_broken_every_control_is_not_caught(
    quick: tuple[Finished, Path, SelfTestReport], control: Control, broken: Callable[[Control], None]
) -> None:
    _, folder, report = quick
    bundle = Bundle(folder / str(result(report, control).bundle))
    if result(report, control).outcome is not Outcome.SETUP_FAILURE:
        assert outcome_of(control, judging.judge(bundle))[0] is (Outcome.CAUGHT if control.worse else Outcome.PASSED)
    broken(control)
    outcome, why = outcome_of(control, judging.judge(bundle))
    assert outcome is (Outcome.NOT_CAUGHT if control.worse else Outcome.FALSE_ALARM), why
    assert why.startswith("expected ")


def test_a_blind_harness_ends_with_exit_code_1_and_the_name_of_what_it_did_not_see(tmp_path: Path) -> None:
    [late] = [c for c in CONTROLS if c.name == "late-kernel"]
    report = run_controls([late], new_folder(tmp_path), None, program=(sys.executable, "-c", BLIND))
    assert report.exit_code == ExitCode.FAIL
    assert report.results[0].outcome is Outcome.NOT_CAUGHT
    assert closing_lines(report)[0].endswith("do not trust its verdicts: late-kernel")


def test_a_host_that_cannot_run_them_says_so(tmp_path: Path) -> None:
    """A profile whose engine is not there: setup failures, whatever the built-in server would have shown."""
    arguments = (
        "selftest",
        "--profile",
        "cpu-forged",
        "--set",
        "engine.command=['/nowhere/vllm']",
        "--only",
        "less-kv",
    )
    done = run(tmp_path, *arguments, program=("-m", "harness.cli"))
    assert done.code == ExitCode.SETUP_FAILURE, done.out
    assert "/nowhere/vllm is not installed" in done.out
    assert "these could not run here, so nobody knows: less-kv" in done.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--only", "nothing"), "--only nothing: no such control; known are same, lower-acceptance"),
        (("--quick", "--profile", "cpu-forged"), "--quick asks no profile's engine"),
    ],
    ids=["unknown control", "quick and a profile"],
)
def test_bad_input_is_told(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    done = run(tmp_path, "selftest", *arguments, program=("-m", "harness.cli"))
    assert done.code == ExitCode.USAGE
    assert told in done.out


def test_the_controls_can_be_listed_and_none_is_run(tmp_path: Path) -> None:
    done = run(tmp_path, "selftest", "--list", program=("-m", "harness.cli"))
    assert done.code == 0
    assert "same                   nothing is worse: it must pass" in done.out
    assert '    KV tokens: fail ("beyond the margin")' in done.out
    assert not list(tmp_path.glob("selftest-*"))
