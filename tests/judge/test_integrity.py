"""Is the session whole: launches one at a time, each along the course, and evidence as it was measured?"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from harness.evidence import pipe
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import MANIFEST, evidence_files, seal
from harness.evidence.others import adopt
from harness.evidence.stream import GrowingFile
from harness.words import Arm, ExitCode, Step, Word

from .bundles import COURSE, WARM, WARM_TOO, Judged, Session

ORDER, WHOLE = "launch order", "evidence whole"


# --- order -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", Arm)
def test_launches_that_overlap_void_the_session(tmp_path: Path, arm: Arm) -> None:
    session = Session(tmp_path, WARM_TOO)
    change = session.control if arm is Arm.CONTROL else session.candidate
    judged = change(where=WARM, early_s=2.0).judge()
    row = judged.row(ORDER)
    assert row.word is Word.VOID
    assert f"-{arm}-mtp1-engine-warm began before " in row.reason
    assert judged.verdict.exit_code == ExitCode.VOID


def test_lanes_may_overlap_and_the_launches_of_each_may_not(tmp_path: Path) -> None:
    lanes: dict[str, object] = {"host.lanes": 2, "plan.modes": ["mtp0", "mtp1"]}
    assert Session(tmp_path / "beside", lanes).judge().row(ORDER).word is Word.PASS
    judged = Session(tmp_path / "within", lanes).both(where={"mode": "mtp1"}, early_s=2.0).judge()
    assert judged.row(ORDER).word is Word.VOID


@pytest.mark.parametrize("course", [c for c in permutations(COURSE, 2) if COURSE.index(c[0]) > COURSE.index(c[1])])
def test_a_course_in_another_order_voids_the_session(tmp_path: Path, course: tuple[Step, ...]) -> None:
    judged = Session(tmp_path).both(course=course).judge()
    row = judged.row(ORDER)
    assert row.word is Word.VOID
    assert f": {course[1]}" in row.reason
    assert f" ran after {course[0]}" in row.reason
    assert judged.verdict.exit_code == ExitCode.VOID


@pytest.mark.parametrize("left_out", COURSE)
def test_a_step_may_be_left_out(tmp_path: Path, left_out: Step) -> None:
    judged = Session(tmp_path).both(course=tuple(s for s in COURSE if s is not left_out)).judge()
    assert judged.row(ORDER).word is Word.PASS
    assert judged.verdict.exit_code == ExitCode.PASS


def test_a_first_prompt_after_a_longer_one_is_not_the_first(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(contexts=(96, 48)).judge()
    row = judged.row(ORDER)
    assert row.word is Word.VOID
    assert "first-prompt 48 ran after first-prompt 96" in row.reason


# --- evidence ----------------------------------------------------------------------------------------


def test_a_log_that_lacks_its_end_voids_the_session(tmp_path: Path) -> None:
    # What it lacks may be the error, or the late compilation, that would have failed the candidate.
    judged = Session(tmp_path).candidate(cut_log=True).judge()
    row = judged.row(WHOLE)
    assert row.word is Word.VOID
    assert "server.log is not what the server's pipe gave" in row.reason
    assert judged.verdict.exit_code == ExitCode.VOID


def test_lines_without_a_time_void_the_session(tmp_path: Path) -> None:
    # Nobody could say whether an error among them came while the server was serving.
    judged = Session(tmp_path).candidate(untimed_log=True).judge()
    assert judged.row(WHOLE).word is Word.VOID
    assert "have no time" in judged.row(WHOLE).reason


def test_a_launch_without_a_log_has_none_to_check(tmp_path: Path) -> None:
    assert Session(tmp_path).both(stage="caches").judge().row(WHOLE).word is Word.PASS


def test_an_unsealed_bundle_is_judged_as_it_is(tmp_path: Path) -> None:
    bundle = Session(tmp_path).build()
    assert not (bundle.root / MANIFEST).exists()
    assert Judged.of(bundle).row(WHOLE).word is Word.PASS


def test_a_sealed_bundle_passes_untouched(tmp_path: Path) -> None:
    bundle = Session(tmp_path).build()
    seal(bundle.root)
    assert Judged.of(bundle).verdict.exit_code == ExitCode.PASS


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_evidence_that_changed_since_it_was_sealed_fails_the_session(tmp_path: Path, change: str) -> None:
    bundle = Session(tmp_path).build()
    seal(bundle.root)
    [file] = sorted(bundle.root.glob("launches/002-*/checks.jsonl"))
    if change == "changed":
        file.write_text(file.read_text("utf-8").replace("passed", "skipped"), "utf-8")
    elif change == "added":
        file = file.with_name("own.txt")
        file.write_text("x", "utf-8")
    else:
        file.unlink()
    judged = Judged.of(bundle)
    row = judged.row(WHOLE)
    assert (row.word, judged.verdict.exit_code) == (Word.FAIL, ExitCode.FAIL)
    assert row.reason == f"{file.relative_to(bundle.root)} is not as it was sealed in {MANIFEST}"


# --- evidence against what passed through the pipe ---------------------------------------------------


def noted(folder: Path) -> Bundle:
    """A bundle whose files are noted while they are written; those of the simulated server as a check's would be."""
    pipe.begin(folder / "bundle")
    bundle = Session(folder).build()
    files = [p for p in evidence_files(bundle.root) if p.parent.name != pipe.FOLDER]
    adopt(bundle.root, files, "after the launch")
    return bundle


def test_files_that_others_wrote_are_counted_beside_the_word(tmp_path: Path) -> None:
    bundle = noted(tmp_path)
    seal(bundle.root)
    row = Judged.of(bundle).row(WHOLE)
    assert row.word is Word.PASS
    assert row.reason.startswith("logs are whole and timed, and every file is as it was written; ")
    assert row.reason.endswith(" files hashed after the launch")


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_evidence_that_changed_before_it_was_sealed_fails_the_session(tmp_path: Path, change: str) -> None:
    bundle = noted(tmp_path)
    [file] = sorted(bundle.root.glob("launches/002-*/checks.jsonl"))
    if change == "changed":
        file.write_text(file.read_text("utf-8").replace("passed", "skipped"), "utf-8")
    elif change == "added":
        file = file.with_name("own.txt")
        file.write_text("x", "utf-8")
    else:
        file.unlink()
    seal(bundle.root)
    judged = Judged.of(bundle)
    row = judged.row(WHOLE)
    assert (row.word, judged.verdict.exit_code) == (Word.FAIL, ExitCode.FAIL)
    assert row.reason.startswith(f"{file.relative_to(bundle.root)} ")


def test_a_file_that_could_not_be_written_whole_voids_the_session(tmp_path: Path) -> None:
    bundle = noted(tmp_path)
    with GrowingFile(bundle.root / "pytest.log") as log:
        log.write(b"half")
        pipe.failed(bundle.root / "locks" / "control.json", OSError(28, "No space left on device"))
    judged = Judged.of(bundle)
    assert (judged.row(WHOLE).word, judged.verdict.exit_code) == (Word.VOID, ExitCode.VOID)
    assert judged.row(WHOLE).reason == "locks/control.json could not be written whole: No space left on device"


def test_what_was_changed_weighs_more_than_what_broke(tmp_path: Path) -> None:
    bundle = noted(tmp_path)
    pipe.failed(bundle.root / "locks" / "control.json", OSError(28, "No space left on device"))
    (bundle.root / "extra").touch()
    assert Judged.of(bundle).row(WHOLE).word is Word.FAIL
