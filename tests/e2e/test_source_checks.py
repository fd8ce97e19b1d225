"""Source checks of a whole session: two images, one pull request apart, and real pytest, ruff and mypy in them."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from harness.checks.record import CheckRun
from harness.evidence.bundle import Bundle, read_record
from harness.judge.verdict import judge
from harness.paths import PROJECT
from harness.records import Row
from harness.words import Arm, ExitCode, Word
from tests.checks.toy import INSTALL, Toy, arm_image, locked_toy, remove_image
from tests.containers.bench import FAKES
from tests.containers.tools import TOOLS, tools_folder

from .sessions import FAKE_PROFILE, Finished, run, stack

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

PATIENCE_S = 600.0
"""Ten containers beside the launches, on a machine that may have more to do."""

PYTEST = '"python3", "-m", "pytest", "--noconftest", "{tests}"'
CHECKS = f"""
[[checks]]
name = "focused"
kind = "pytest"
component = "toy"
command = [{PYTEST}]
tests = ["tests/test_half.py", "tests/test_keep.py", "tests/test_old.py", "tests/test_extra.py", "tests/test_gone.py"]

[[checks]]
name = "needs"
kind = "pytest"
component = "toy"
command = [{PYTEST}]
tests = ["tests/test_needs.py"]

[[checks]]
name = "lint"
kind = "ruff"
component = "toy"
command = ["{TOOLS}/bin/ruff", "check", "--select", "F401", "{{files}}"]

[[checks]]
name = "types"
kind = "mypy"
component = "toy"
command = ["python3", "-m", "mypy", "{{files}}"]

[[checks]]
name = "compiles"
kind = "command"
component = "toy"
command = ["python3", "-m", "compileall", "-q", "{{files}}"]
"""

PROGRAM = """
import pathlib, sys
import harness.session.checking as checking
from harness.cli import main
images, folders = {images!r}, {folders!r}
checking.image_of = lambda plan, bundle, arm: images[arm]
checking.lock_folder_of = lambda bundle, arm: pathlib.Path(folders[arm])
sys.exit(main(["run", *sys.argv[1:]]))
"""
"""As long as a session builds no image of its own, the arms' images and locks are put in here."""


WITH_LOCKS = """
import shutil, sys
import harness.session.terminal as terminal
from harness.cli import main
opened = terminal.open_session
def with_locks(*arguments, **more):
    bundle, notes = opened(*arguments, **more)
    for arm, folder in {0}.items():
        shutil.copytree(folder, bundle.root / "locks" / arm)
    return bundle, notes
terminal.open_session = with_locks
sys.exit(main(["run", *sys.argv[1:]]))
"""

SLOW_CHECK = """
[[checks]]
name = "slow"
kind = "command"
component = "toy"
command = ["sleep", "2"]
"""


def profile(folder: Path, reference: str) -> str:
    """The fake server's profile with checks, in the test image."""
    tools = tools_folder(folder / "tools")
    text = FAKE_PROFILE.format(python="python3").replace('name = "fake"', 'name = "fake"\nlauncher = "docker"')
    image = f"""
        [serve.env]
        PYTHONPATH = "{FAKES}:{TOOLS}:{INSTALL[0]}"

        [image]
        reference = "{reference}"
        shm_size_gib = 1
        mounts = [
          {{ source = "{PROJECT}/harness", target = "{FAKES}/harness" }},
          {{ source = "{tools}", target = "{TOOLS}" }},
        ]
    """
    path = folder / "fake.toml"
    path.write_text(text + image + CHECKS, "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return locked_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def program(client: docker.DockerClient, base: str, toy: Toy) -> Iterator[tuple[str, ...]]:
    """`qualify run` with an image and a lock per arm."""
    images = {str(arm): arm_image(client, base, arm) for arm in Arm}
    folders = {str(arm): str(folder) for arm, folder in toy.folders.items()}
    yield "-c", PROGRAM.format(images=images, folders=folders)
    for image in images.values():
        remove_image(client, image)


@pytest.fixture(scope="module")
def done(reference: str, program: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("session")
    return run(folder / "results", "--profile", profile(folder, reference), program=program, timeout_s=PATIENCE_S)


def row(done: Finished, check: str, word: Word) -> Row:
    return done.row(f"source check {check}", word=word)


def words(done: Finished, check: str) -> list[Word]:
    return [r.word for r in done.rows(f"source check {check}")]


def record(done: Finished, check: str, arm: Arm) -> CheckRun:
    return read_record(done.bundle.checks_dir / check / arm / "check.json", CheckRun)


class TestTests:
    def test_a_test_that_the_candidate_breaks_fails_by_its_node_id(self, done: Finished) -> None:
        found = row(done, "focused", Word.FAIL)
        assert found.reason == "1 new: tests/test_keep.py::test_keep: assert 2 == 1"
        assert done.code == ExitCode.FAIL, done.out

    def test_what_fails_on_the_control_and_passes_on_the_candidate_is_fixed(self, done: Finished) -> None:
        assert row(done, "focused", Word.NOTE).reason == (
            "2 fail on the control and pass on the candidate: "
            "tests/test_extra.py::test_extra: cannot be collected: "
            "ModuleNotFoundError: No module named 'toy.extra'; tests/test_half.py::test_half: assert 1 == 2"
        )

    def test_a_test_that_vanished_is_reported(self, done: Finished) -> None:
        reason = row(done, "focused", Word.WARN).reason
        assert reason == "1 no longer run: tests/test_gone.py: a test file of the control's lock only"

    def test_the_arms_figures_are_shown(self, done: Finished) -> None:
        found = row(done, "focused", Word.FAIL)
        assert (found.control, found.candidate) == ("3 passed, 2 failed, 1 not collected", "4 passed, 2 failed")

    def test_a_missing_dependency_is_the_environments_and_named(self, done: Finished) -> None:
        assert words(done, "needs") == [Word.SETUP_FAILURE]
        assert "tests/test_needs.py cannot be collected: nowhere_to_be_found is not in the image" in (
            row(done, "needs", Word.SETUP_FAILURE).reason
        )


class TestLinters:
    def test_what_was_there_before_is_pre_existing_although_every_line_moved(self, done: Finished) -> None:
        found = row(done, "types", Word.FAIL)
        assert (found.control, found.candidate) == ("2 findings", "3 findings")
        assert found.reason.startswith("1 new: toy/mod.py:")
        assert "Incompatible return value type" in found.reason
        assert Word.NOTE not in words(done, "types")

    def test_ruff(self, done: Finished) -> None:
        found = row(done, "lint", Word.FAIL)
        assert found.reason == "1 new: toy/mod.py:3: `os` imported but unused [F401]"
        assert (found.control, found.candidate) == ("1 finding", "2 findings")

    def test_files_are_the_arms_own_in_the_image(self, done: Finished) -> None:
        assert record(done, "lint", Arm.CONTROL).source.files == ("/qualify/installed/toy/toy/mod.py",)
        assert record(done, "lint", Arm.CANDIDATE).source.files == (
            "/qualify/installed/toy/toy/extra.py",
            "/qualify/installed/toy/toy/mod.py",
        )

    def test_a_command_passes_by_its_exit_code(self, done: Finished) -> None:
        assert words(done, "compiles") == [Word.PASS]


class TestEvidence:
    def test_it_ran_before_the_first_launch(self, done: Finished) -> None:
        ends = [record(done, check, arm).end_ns for check in ("focused", "compiles") for arm in Arm]
        starts = [json.loads(p.read_bytes())["begin_ns"] for p in (done.bundle.root / "launches").glob("*/launch.json")]
        assert max(ends) < min(starts)

    def test_each_arm_in_its_own_image_without_network(self, done: Finished) -> None:
        facts = [record(done, "types", arm).container for arm in Arm]
        assert len({f.image_id for f in facts if f is not None}) == 2
        assert {f.network for f in facts if f is not None} == {"none"}

    def test_judging_again_gives_the_same_verdict(self, done: Finished) -> None:
        assert judge(done.bundle) == done.verdict

    def test_a_report_of_a_check_that_was_changed_voids_it(self, done: Finished, tmp_path: Path) -> None:
        copy = Bundle(tmp_path / done.bundle.root.name)
        shutil.copytree(done.bundle.root, copy.root)
        report = copy.checks_dir / "focused" / "candidate" / "junit.xml"
        report.write_text(report.read_text("utf-8").replace("assert 2 == 1", "assert 1 == 1"), "utf-8")
        found = [r for r in judge(copy).rows if r.name == "source check focused"]
        assert Word.VOID in {r.word for r in found}
        assert any("is not what the check left" in r.reason for r in found), found

    def test_it_is_all_under_the_seal(self, done: Finished) -> None:
        sealed = (done.bundle.root / "SHA256SUMS").read_text("utf-8")
        for name in ("check.json", "output.log", "junit.xml", "container.json"):
            assert f"  checks/focused/candidate/{name}\n" in sealed

    def test_the_report_shows_them(self, done: Finished) -> None:
        page = html.unescape((done.bundle.report_dir / "report.html").read_text("utf-8"))
        assert "tests/test_keep.py::test_keep: assert 2 == 1" in page
        assert 'href="../checks/focused/candidate/junit.xml"' in page


def test_checks_are_selected_like_others(
    reference: str, program: tuple[str, ...], tmp_path: Path, client: docker.DockerClient
) -> None:
    """Launches wait for what was selected, not for what was planned."""
    chosen = ("-k", "test_served or (test_source_check and compiles)")
    done = run(
        tmp_path / "results", "--profile", profile(tmp_path, reference), *chosen, program=program, timeout_s=PATIENCE_S
    )
    assert words(done, "compiles") == [Word.PASS], done.out
    assert words(done, "types") == [Word.NOT_TESTED]
    assert "left out by the selection" in row(done, "types", Word.NOT_TESTED).reason
    assert done.row("served to the end").word is Word.PASS
    assert not client.containers.list(all=True, filters={"label": f"qualify.session={done.bundle.root.name}"})


def test_no_lane_launches_beside_a_check(reference: str, toy: Toy, base: str, tmp_path: Path) -> None:
    """Two lanes in two processes; the locks lie where a session that builds images will put them."""
    path = Path(profile(tmp_path, reference))
    text = path.read_text("utf-8").replace('modes = ["mtp1"]', 'modes = ["mtp0", "mtp1"]').partition("[[checks]]")[0]
    path.write_text(f"{text}\n[host]\nlanes = 2\n{SLOW_CHECK}", "utf-8")
    done = run(
        tmp_path / "results",
        "--profile",
        str(path),
        *("-k", "test_served or slow"),
        program=("-c", WITH_LOCKS.format({str(a): str(f) for a, f in toy.folders.items()})),
        timeout_s=PATIENCE_S,
    )
    runs = [record(done, "slow", arm) for arm in Arm]
    assert [(r.exit.code if r.exit else None, r.fault, r.not_run) for r in runs] == [(0, None, None)] * 2, done.out
    launched = [json.loads(p.read_bytes()) for p in (done.bundle.root / "launches").glob("*/launch.json")]
    assert len({x["launch"]["lane"] for x in launched}) == 2
    assert max(r.end_ns for r in runs) < min(x["begin_ns"] for x in launched)
    assert {r.container.image_id for r in runs if r.container} == {base}


def test_the_plan_names_them(tmp_path: Path) -> None:
    path = tmp_path / "fake.toml"
    text = FAKE_PROFILE.format(python="python3").replace('name = "fake"', 'name = "fake"\nlauncher = "docker"')
    path.write_text(f'{text}\n[image]\nreference = "r/x@sha256:{"a" * 64}"\n{CHECKS}', "utf-8")
    done = run(tmp_path / "results", "--profile", str(path), program=("-m", "harness.cli", "plan"))
    assert "checks     5 over the source of both arms, before the first launch" in done.out
    assert "  types: python3 -m mypy {files}" in done.out


def test_a_stack_with_checks_needs_containers(tmp_path: Path) -> None:
    from .sessions import fake_profile

    candidate = stack(tmp_path, "checked")
    candidate.write_text(candidate.read_text("utf-8") + CHECKS, "utf-8")
    done = run(tmp_path / "results", "--profile", str(fake_profile(tmp_path)), "--candidate", str(candidate))
    assert done.code == ExitCode.USAGE
    assert "check `focused`: [[checks]] run in a container of each arm" in done.out
