"""Source checks in the verdict: only what the control does not have is held against the candidate."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest

from harness.checks.record import CheckDir, Source
from harness.config.checks import Check, Kind
from harness.config.image import Image
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import seal
from harness.judge.case import read_case
from harness.judge.verdict import judge_case
from harness.records import Row
from harness.report import write_report
from harness.words import Arm, Word
from tests.checks.local import check, ended
from tests.checks.written import junit, write_check

from .bundles import Judged, Session

REFERENCE = f"r/vllm@sha256:{'ab' * 32}"
TESTS = check(Kind.PYTEST, ("pytest", "{tests}"), name="focused")
TYPES = check(Kind.MYPY, ("mypy", "{files}"), name="types")
SMOKE = check(Kind.COMMAND, ("true",), name="smoke")

MYPY = "/qualify/source/pkg/pkg/a.py:{}: error: wrong  [arg-type]\n"


class Case:
    """A session in containers that passes but for its checks."""

    def __init__(self, root: Path, *checks: Check) -> None:
        session = Session(root)
        changes = {"launcher": "docker", "image": Image(reference=REFERENCE), "checks": checks}
        session.profile = session.profile.model_copy(update=changes)
        self.bundle: Bundle = session.build()

    def tests(self, control: dict[str, str], candidate: dict[str, str], **fields: Any) -> None:
        for arm, tests in ((Arm.CONTROL, control), (Arm.CANDIDATE, candidate)):
            code = ended(int(any(tests.values())))
            write_check(self.bundle, TESTS, arm, code, report=junit(tests), **fields)

    def types(self, control: tuple[int, ...], candidate: tuple[int, ...]) -> None:
        for arm, lines in ((Arm.CONTROL, control), (Arm.CANDIDATE, candidate)):
            output = "".join(MYPY.format(line) for line in lines).encode()
            write_check(self.bundle, TYPES, arm, ended(int(bool(lines))), output=output)

    def judge(self) -> Judged:
        return Judged.of(self.bundle)

    def rows(self, name: str = "focused") -> dict[Word, Row]:
        found = self.judge().rows(f"source check {name}")
        assert len({r.word for r in found}) == len(found), "one row of each word"
        return {r.word: r for r in found}


def test_no_check_planned_is_no_row(tmp_path: Path) -> None:
    assert not [r for r in Session(tmp_path).judge().verdict.rows if r.name.startswith("source check")]


def test_nothing_new_passes_with_what_was_there_before(tmp_path: Path) -> None:
    case = Case(tmp_path, TESTS, TYPES)
    case.tests({"good": "", "bad": "assert 0"}, {"good": "", "bad": "assert 0"})
    case.types((5, 8, 13, 21), (6, 9, 14, 22))
    assert case.rows()[Word.PASS].reason == (
        "nothing new; 1 pass in both arms; 1 pre-existing: tests/test_a.py::bad: assert 0"
    )
    found = case.rows("types")[Word.PASS]
    assert found.reason.startswith("nothing new; 4 pre-existing: pkg/a.py:6: wrong [arg-type]; ")
    assert (found.control, found.candidate) == ("4 findings", "4 findings")
    assert case.judge().verdict.verdict is Word.PASS


def test_a_new_failure_fails_the_session_and_is_listed(tmp_path: Path) -> None:
    case = Case(tmp_path, TESTS)
    case.tests({"good": ""}, {"good": "assert 1 == 2"})
    found = case.rows()[Word.FAIL]
    assert found.reason == "1 new: tests/test_a.py::good: assert 1 == 2"
    assert (found.control, found.candidate) == ("1 passed", "1 failed")
    assert "checks/focused/candidate/junit.xml" in found.sources
    assert case.judge().verdict.verdict is Word.FAIL


def test_four_findings_before_and_five_after_are_one_new(tmp_path: Path) -> None:
    case = Case(tmp_path, TYPES)
    case.types((1, 2, 3, 4), (1, 2, 3, 4, 99))
    assert case.rows("types")[Word.FAIL].reason == "1 new: pkg/a.py:99: wrong [arg-type]"


def test_a_long_list_is_cut_and_counted(tmp_path: Path) -> None:
    case = Case(tmp_path, TYPES)
    case.types((), tuple(range(1, 9)))
    reason = case.rows("types")[Word.FAIL].reason
    assert reason.startswith("8 new: pkg/a.py:1: ")
    assert reason.endswith("; and 3 more")


def test_what_fails_on_the_control_and_passes_on_the_candidate_is_noted(tmp_path: Path) -> None:
    case = Case(tmp_path, TESTS)
    case.tests({"good": "assert 0"}, {"good": ""})
    assert case.rows()[Word.NOTE].reason == (
        "1 fail on the control and pass on the candidate: tests/test_a.py::good: assert 0"
    )
    assert case.judge().verdict.verdict is Word.PASS


def test_a_test_that_the_candidate_brings_must_pass(tmp_path: Path) -> None:
    case = Case(tmp_path, TESTS)
    source = Source(roots={"/qualify/source/pkg": ""}, packages=("pkg",), brought=("tests/test_a.py",))
    case.tests({"good": "assert 0"}, {"good": "assert 0"}, source=source)
    assert case.rows()[Word.FAIL].reason == "1 new: tests/test_a.py::good: assert 0"


def test_a_test_that_vanished_warns(tmp_path: Path) -> None:
    case = Case(tmp_path, TESTS)
    case.tests({"good": "", "old": ""}, {"good": ""})
    assert case.rows()[Word.WARN].reason == (
        "1 no longer run: tests/test_a.py::old: passed in the control, absent in the candidate"
    )
    assert case.judge().verdict.verdict is Word.PASS


class TestEnvironment:
    def test_a_missing_dependency_is_a_setup_failure_that_names_it(self, tmp_path: Path) -> None:
        case = Case(tmp_path, TESTS)
        text = "E   ModuleNotFoundError: No module named 'numpyx'"
        bad = f'<testcase classname="" name="tests.test_b" file="tests/test_b.py"><error message="x">{text}</error>'
        report = f"<testsuites><testsuite>{bad}</testcase></testsuite></testsuites>".encode()
        for arm in Arm:
            write_check(case.bundle, TESTS, arm, ended(2), report=report)
        found = case.rows()
        assert set(found) == {Word.SETUP_FAILURE}
        assert found[Word.SETUP_FAILURE].reason == (
            "could not be compared: tests/test_b.py cannot be collected: numpyx is not in the image"
        )
        assert case.judge().verdict.verdict is Word.SETUP_FAILURE

    def test_so_is_a_tool_that_is_not_there(self, tmp_path: Path) -> None:
        case = Case(tmp_path, TESTS)
        for arm in Arm:
            error = "exec pytest failed: No such file or directory"
            write_check(case.bundle, TESTS, arm, ended(127, error=error), report_fault="it left none")
        assert "candidate: pytest: exec pytest failed" in case.rows()[Word.SETUP_FAILURE].reason

    def test_a_candidate_whose_run_never_ends_fails(self, tmp_path: Path) -> None:
        case = Case(tmp_path, TESTS)
        write_check(case.bundle, TESTS, Arm.CONTROL, ended(0), report=junit({"good": ""}))
        killed = ended(None, signal="SIGKILL", asked=True)
        write_check(case.bundle, TESTS, Arm.CANDIDATE, killed, stopped="it did not end within 600 s")
        found = case.rows()[Word.FAIL]
        assert found.reason == "1 new: it did not end within 600 s"
        assert (found.control, found.candidate) == ("1 passed", "no answer")


class TestNotTested:
    def test_a_check_that_was_left_out_says_so(self, tmp_path: Path) -> None:
        case = Case(tmp_path, TESTS, SMOKE)
        for arm in Arm:
            write_check(case.bundle, SMOKE, arm, ended(0))
        assert "left out by the selection" in case.rows()[Word.NOT_TESTED].reason
        assert set(case.rows("smoke")) == {Word.PASS}

    def test_so_does_one_that_lost_an_arm(self, tmp_path: Path) -> None:
        case = Case(tmp_path, SMOKE)
        write_check(case.bundle, SMOKE, Arm.CONTROL, ended(0))
        assert case.rows("smoke")[Word.NOT_TESTED].reason.startswith("it has no end in the candidate")

    def test_nothing_to_look_at_in_both_arms(self, tmp_path: Path) -> None:
        case = Case(tmp_path, TYPES)
        for arm in Arm:
            write_check(case.bundle, TYPES, arm, None, not_run="no changed file of pkg fits **/*.py")
        assert case.rows("types")[Word.NOT_TESTED].reason == "no changed file of pkg fits **/*.py"

    def test_the_last_test_of_a_check_that_vanishes_is_told_all_the_same(self, tmp_path: Path) -> None:
        case = Case(tmp_path, TESTS)
        for arm in Arm:
            write_check(case.bundle, TESTS, arm, None, not_run="none", source=Source(gone=("tests/test_a.py",)))
        found = case.rows()
        assert found[Word.NOT_TESTED].reason == "none"
        assert found[Word.WARN].reason == "1 no longer run: tests/test_a.py: a test file of the control's lock only"

    def test_nothing_to_look_at_in_the_control_makes_every_finding_new(self, tmp_path: Path) -> None:
        case = Case(tmp_path, TYPES)
        write_check(case.bundle, TYPES, Arm.CONTROL, None, not_run="no changed file of pkg fits **/*.py")
        write_check(case.bundle, TYPES, Arm.CANDIDATE, ended(1), output=MYPY.format(3).encode())
        assert set(case.rows("types")) == {Word.FAIL}


@pytest.mark.parametrize("name", ["output.log", "junit.xml"])
@pytest.mark.parametrize("change", ["edited", "removed"])
def test_evidence_that_is_not_what_the_check_left_is_void(tmp_path: Path, name: str, change: str) -> None:
    case = Case(tmp_path, TESTS)
    case.tests({"good": "assert 0"}, {"good": "assert 0"})
    path = CheckDir(case.bundle, TESTS, Arm.CANDIDATE).root / name
    if change == "edited":
        path.write_bytes(junit({"good": ""}))
    else:
        path.unlink()
    assert case.rows()[Word.VOID].reason == (
        f"checks/focused/candidate/{name} is not what the check left: a full disk, or changed since"
    )


def test_the_report_shows_a_stranger_s_text_and_runs_none_of_it(tmp_path: Path) -> None:
    case = Case(tmp_path, TESTS)
    evil = "&lt;script&gt;alert(1)&lt;/script&gt; @everyone ```"
    case.tests({"good": ""}, {"good": evil})
    seal(case.bundle.root)
    read = read_case(case.bundle)
    report = write_report(case.bundle, judge_case(read), read)
    for path in report.parent.glob("*"):
        if path.suffix in (".html", ".md"):
            text = path.read_text("utf-8")
            assert "<script>alert" not in text
            assert "@everyone" not in text or path.suffix == ".html"
            assert "source check focused" in html.unescape(text)
