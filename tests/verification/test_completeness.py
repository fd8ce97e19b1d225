"""What a bundle may lack, and what it may not: launches, looks, source checks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.checks.record import CheckDir
from harness.evidence.bundle import Bundle, append_record
from harness.records import CheckRecord
from harness.words import Arm
from harness.workflow import judge_and_report
from tests.judge.bundles import Session
from tests.judge.test_looks import OPEN, decided, session
from tests.judge.test_source_checks import TESTS, Case

from .tampering import edit, looked_at, reseal, told


def missing(bundle: Bundle) -> list[str]:
    """What is told of a bundle's completeness, once it is sealed."""
    reseal(bundle.root)
    return told(bundle.root, "completeness")


@pytest.fixture
def checked(tmp_path: Path) -> Bundle:
    """A session with a source check, run in both arms."""
    case = Case(tmp_path, TESTS)
    case.tests({"good": ""}, {"good": ""})
    return case.bundle


class TestLaunches:
    def test_all_of_them_are_as_planned(self, tmp_path: Path) -> None:
        bundle = Session(tmp_path).build()
        assert missing(bundle) == []
        assert "2 of 2 planned launches have a record" in str(looked_at(bundle.root, "completeness").found)

    def test_one_that_never_began_is_missing(self, tmp_path: Path) -> None:
        [found] = missing(Session(tmp_path).candidate(begins=False).build())
        assert found.endswith("launch.json: file: says planned, and nothing says why it was not run, is missing")

    def test_of_a_session_that_was_never_sealed_no_root_hash_is_made_up(self, tmp_path: Path) -> None:
        bundle = Session(tmp_path).build()
        judge_and_report(bundle)
        [found] = told(bundle.root, "root")
        said = bundle.verdict().evidence_root_sha256
        assert found == f"verdict.json: evidence_root_sha256: says {said}, is unknown: there is no SHA256SUMS"

    def test_a_selection_may_leave_some_out_and_that_is_told(self, tmp_path: Path) -> None:
        bundle = Session(tmp_path).candidate(begins=False).build()
        edit(bundle.run_file, lambda run: run.update(selection="-k 'control'"))
        assert missing(bundle) == []
        assert "the selection (-k 'control') left others out" in str(looked_at(bundle.root, "completeness").found)

    @pytest.mark.parametrize(("outcome", "right"), [("skipped", True), ("failed", True), ("passed", False)])
    def test_one_whose_checks_say_why_is_told(self, tmp_path: Path, outcome: str, *, right: bool) -> None:
        bundle = Session(tmp_path).candidate(begins=False).build()
        [launch] = [x for x in bundle.plan().launches if x.arm is Arm.CANDIDATE]
        folder = bundle.launch(launch.id)
        folder.root.mkdir(parents=True)
        record = {"name": "t", "context_tokens": None, "outcome": outcome, "message": "the lane is stuck"}
        append_record(folder.checks_file, CheckRecord.model_validate(record))
        assert (missing(bundle) == []) is right
        assert ("the lane is stuck" in str(looked_at(bundle.root, "completeness").found)) is right

    def test_an_empty_folder_that_nobody_planned_is_named(self, tmp_path: Path) -> None:
        bundle = Session(tmp_path).build()
        (bundle.root / "launches" / "099-x").mkdir()
        assert missing(bundle) == ["launches/099-x: folder: says nothing, is there, though plan.json names no such one"]


class TestSecondLook:
    def test_one_that_was_not_needed_is_not_missed(self, tmp_path: Path) -> None:
        bundle = decided(session(tmp_path, 1.0, 1.0).build())
        assert missing(bundle) == []
        assert "mtp1 needed no second look" in str(looked_at(bundle.root, "completeness").found)

    def test_one_that_was_needed_is_missed(self, tmp_path: Path) -> None:
        found = missing(decided(session(tmp_path, *OPEN).build()))
        assert len(found) == 4
        assert all("nothing says why it was not run" in text for text in found)

    def test_a_decision_that_the_evidence_does_not_give_is_named(self, tmp_path: Path) -> None:
        assert missing(decided(session(tmp_path, *OPEN).build(), goes_on=False)) == [
            "looks/mtp1.json: goes_on: says false, is true by the evidence of the first pairs"
        ]


class TestSourceChecks:
    def test_those_that_ran_in_both_arms_are_complete(self, checked: Bundle) -> None:
        assert missing(checked) == []

    def test_one_that_did_not_run_is_named(self, checked: Bundle) -> None:
        shutil.rmtree(CheckDir(checked, TESTS, Arm.CANDIDATE).root)
        assert missing(checked) == [
            "checks/focused/candidate/check.json: file: says planned, and nothing says why it was not run, is missing"
        ]

    def test_one_of_an_interrupted_session_is_not_missed(self, checked: Bundle) -> None:
        shutil.rmtree(CheckDir(checked, TESTS, Arm.CANDIDATE).root)
        edit(checked.run_file, lambda run: run.update(interrupted="stopped by the user"))
        assert missing(checked) == []

    @pytest.mark.parametrize("file", ["output.log", "junit.xml"])
    def test_an_edited_output_is_named(self, checked: Bundle, file: str) -> None:
        path = CheckDir(checked, TESTS, Arm.CANDIDATE).root / file
        path.write_bytes(path.read_bytes() + b"\n")
        [found] = missing(checked)
        assert found.startswith(f"checks/focused/candidate/{file}: SHA-256 of what the check left: says ")

    def test_swapped_arms_are_named(self, checked: Bundle) -> None:
        one, other = (CheckDir(checked, TESTS, arm).root for arm in Arm)
        one.rename(checked.root / "aside")
        other.rename(one)
        (checked.root / "aside").rename(other)
        assert missing(checked) == [
            "checks/focused/control/check.json: arm: says candidate, is control",
            "checks/focused/candidate/check.json: arm: says control, is candidate",
        ]

    def test_one_that_nobody_planned_is_named(self, checked: Bundle) -> None:
        shutil.copytree(checked.checks_dir / "focused", checked.checks_dir / "more")
        assert missing(checked) == ["checks/more: folder: says nothing, is there, though plan.json names no such one"]
