"""Sessions whose arms are images built from locks, with the fake server installed in the image."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import docker
import pytest

from harness.evidence.bundle import Bundle
from harness.judge.verdict import judge
from harness.stack.record import LOCK_FILE
from harness.words import Arm, ExitCode, Word
from tests.containers.patching import SETTINGS, UNUSED, Patching, pushed

from .sessions import FAKE_PROFILE, Finished, fake_profile, run

INERT, COSTLY = 7, 8

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]


@pytest.fixture(scope="module")
def patched(client: docker.DockerClient, base: str, host: str) -> str:
    """The image under its digest."""
    return pushed(client, base, host)


@pytest.fixture
def patching(patched: str, tmp_path: Path) -> Patching:
    """Two pull requests: one that changes nothing, and one that takes every tenth KV block."""
    return prepared(patched, tmp_path)


def prepared(reference: str, folder: Path) -> Patching:
    made = Patching(folder, reference)
    made.pull(INERT, f"{made.settings}\n# inert\n")
    costly = made.settings.replace("2_097_152", "1_887_488")
    assert costly != made.settings
    made.pull(COSTLY, costly)
    return made


def session(patching: Patching, control: str, candidate: str, *more: str) -> Finished:
    arms = ("--control", control, "--candidate", candidate)
    return run(patching.root / "results", "--profile", patching.profile(FAKE_PROFILE), *arms, *more)


def refused(patching: Patching, code: ExitCode, *more: str) -> str:
    """What is said where nothing may be started, and no bundle left."""
    done = session(patching, patching.stack("control", INERT), *more)
    assert done.code == code, done.out
    assert "Traceback" not in done.out
    assert not list((patching.root / "results").glob("*-*/plan.json"))
    return done.out


@pytest.fixture(scope="module")
def done(patched: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The candidate has one head more than the control."""
    patching = prepared(patched, tmp_path_factory.mktemp("effect"))
    return session(patching, patching.stack("control", INERT), patching.stack("candidate", INERT, COSTLY))


class TestTheEffectOfAPatch:
    def test_shows_and_decides(self, done: Finished) -> None:
        row = done.row("KV tokens")
        assert (row.control, row.candidate, row.word) == ("2,097,152", "1,887,488", Word.FAIL)
        assert done.code == ExitCode.FAIL, done.out

    def test_each_arm_ran_its_own_image_and_was_looked_into(self, done: Finished) -> None:
        assert done.row("image as locked").word is Word.PASS
        images = [done.bundle.lock(arm).image for arm in Arm]
        assert len({image.image_id for image in images if image is not None}) == 2
        for folder in (done.bundle.root / "launches").iterdir():
            found = json.loads((folder / "image.json").read_bytes())
            assert found["mismatches"] == []

    def test_a_container_of_which_nobody_can_show_what_it_held_voids(self, done: Finished, tmp_path: Path) -> None:
        copy = Bundle(tmp_path / done.bundle.root.name)
        shutil.copytree(done.bundle.root, copy.root)
        next(copy.root.glob("launches/*candidate*/image.json")).unlink()
        [row] = [r for r in judge(copy).rows if r.name == "image as locked"]
        assert row.word is Word.VOID
        assert row.reason.endswith(": nobody looked into its container (image.json is missing)")

    def test_source_checks_look_into_each_arms_own_image(self, done: Finished) -> None:
        row = done.row("source check kv-constant")
        assert row.word is Word.FAIL
        assert row.reason.startswith("1 new: ")

    def test_the_comment_names_the_one_head_that_differs(self, done: Finished) -> None:
        comment = next(done.bundle.report_dir.glob("*.md")).read_text("utf-8")
        assert f"#{COSTLY}: none in the control, " in comment
        assert f"#{INERT}: none" not in comment

    def test_the_lock_is_evidence(self, done: Finished) -> None:
        sealed = (done.bundle.root / "SHA256SUMS").read_text("utf-8")
        for arm in Arm:
            assert f"locks/{arm}/{LOCK_FILE}" in sealed
            assert f"locks/{arm}/fakes/integration.patch" in sealed
            assert f"locks/{arm}/build.log" in sealed


def test_a_head_that_is_left_out_is_measured_by_its_own_lock(patching: Patching) -> None:
    stack = patching.stack("both", INERT, COSTLY)
    results = patching.root / "results"
    made = run(results, stack, "--without", str(COSTLY), program=("-m", "harness.cli", "lock"))
    assert made.code == ExitCode.PASS, made.out
    [folder] = (results / "locks").iterdir()
    done = session(patching, stack, stack, "--control-lock", str(folder))
    assert (done.row("KV tokens").control, done.row("KV tokens").candidate) == ("2,097,152", "1,887,488")


def test_a_patch_in_a_copy_that_nobody_imports_is_a_setup_failure(patching: Patching) -> None:
    out = refused(patching, ExitCode.SETUP_FAILURE, patching.stack("candidate", COSTLY, install=(UNUSED,)))
    told = "package harness: expected copies in /opt/vllm and no others, found imported from /opt/site"
    assert f"{told}, where 1 of 1 patched files differ" in out


def test_a_file_that_changes_in_the_running_container_is_a_setup_failure(patching: Patching) -> None:
    if os.getuid() != 0:
        pytest.skip("only root's containers can write to their own image's files")
    patching.pull(9, f"{patching.settings}\nfrom pathlib import Path\nPath(__file__).write_text('x = 1\\n')\n")
    done = session(patching, patching.stack("control", INERT), patching.stack("candidate", 9))
    row = done.row("served to the end")
    assert (done.code, row.word) == (ExitCode.SETUP_FAILURE, Word.SETUP_FAILURE), done.out
    assert "failed at image: " in row.reason
    assert SETTINGS in row.reason
    assert done.row("image as locked").word is Word.SETUP_FAILURE


def test_a_lock_of_another_state_of_the_stack_is_refused(patching: Patching) -> None:
    stack = patching.stack("candidate", INERT)
    made = run(patching.root / "results", stack, program=("-m", "harness.cli", "lock"))
    assert made.code == ExitCode.PASS, made.out
    out = refused(patching, ExitCode.USAGE, patching.stack("candidate", INERT, COSTLY))
    assert "its base, build, components or claims were changed since; `qualify lock candidate --update`" in out
    assert "building" not in out, "the lock of the other arm is good, and was not built for nothing"


def test_processes_of_the_host_cannot_run_an_image(patching: Patching, tmp_path: Path) -> None:
    profile = str(fake_profile(tmp_path))
    done = run(patching.root / "results", "--profile", profile, "--candidate", patching.stack("candidate", INERT))
    assert done.code == ExitCode.USAGE
    assert "stack candidate has an image of its own ([base]), and profile fake starts processes" in done.out
