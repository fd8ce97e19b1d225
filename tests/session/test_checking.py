"""Source checks in a session: each once per arm, and every lane waits for them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harness.checks.record import CheckDir, CheckRun
from harness.config.checks import Kind
from harness.config.image import Image
from harness.errors import SetupFailure
from harness.evidence.bundle import Bundle
from harness.launch.launcher import Folders, LaunchFailed, Server, ServerSpec, View
from harness.records import ENGINE_STAGE
from harness.session.checking import SourceChecks, checks_of, lock_folder_of, wait_for_checks
from harness.session.conductor import AlreadyFailed, Conductor
from harness.stack.record import LockedComponent
from harness.words import Arm
from tests.checks.local import check, ended
from tests.checks.written import write_check
from tests.judge.bundles import Session

CHECK = check(Kind.COMMAND, ("true",), name="smoke")
OTHER = check(Kind.COMMAND, ("true",), name="other")


class Unable:
    """A launcher that says when it is asked, and starts nothing."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def view(self, folders: Folders) -> View:
        self.asked.set()
        raise LaunchFailed(ENGINE_STAGE, f"nothing is started in {folders.model}")

    def start(self, spec: ServerSpec) -> Server:
        raise AssertionError(spec.launch)

    def clean_up(self) -> list[str]:
        return []


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """A session in containers before its first launch."""
    monkeypatch.setenv("QUALIFY_RESULTS", str(tmp_path / "results"))
    session = Session(tmp_path).both(begins=False)
    changes = {"launcher": "docker", "image": Image(reference=f"r/vllm@sha256:{'ab' * 32}"), "checks": (CHECK, OTHER)}
    session.profile = session.profile.model_copy(update=changes)
    return session.build()


def end(bundle: Bundle, *arms: Arm) -> None:
    for arm in arms:
        write_check(bundle, CHECK, arm, ended(0))


class TestWaiting:
    def test_a_lane_launches_nothing_before_both_arms_have_ended(self, bundle: Bundle) -> None:
        launcher = Unable()
        conductor = Conductor(bundle, dict.fromkeys(Arm, launcher))
        conductor.awaited_checks = (CHECK,)
        launch = conductor.plan.launches[0]
        failures: list[BaseException] = []

        def enter() -> None:
            try:
                conductor.enter(launch)
            except LaunchFailed as e:
                failures.append(e)
            conductor.close(None)  # by the thread that holds the lane

        lane = threading.Thread(target=enter)
        lane.start()
        end(bundle, Arm.CONTROL)
        assert not launcher.asked.wait(0.5), "the candidate's check has no end yet"
        end(bundle, Arm.CANDIDATE)
        lane.join(300)
        assert launcher.asked.is_set()
        assert "nothing is started" in str(failures[0])

    def test_it_waits_for_what_was_selected_only(self, bundle: Bundle) -> None:
        end(bundle, *Arm)
        wait_for_checks(bundle, (CHECK,))
        wait_for_checks(bundle, ())

    def test_the_wait_has_an_end_and_nothing_is_measured_after_it(
        self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("harness.session.checking.MARGIN_S", -2 * CHECK.timeout_s)
        launcher = Unable()
        conductor = Conductor(bundle, dict.fromkeys(Arm, launcher))
        conductor.awaited_checks = (CHECK,)
        first, second = conductor.plan.launches[:2]
        for launch, error in ((first, SetupFailure), (first, AlreadyFailed), (second, SetupFailure)):
            with pytest.raises(error, match="has no end yet, and nothing is measured beside a source check"):
                conductor.enter(launch)
        conductor.close(None)
        assert not launcher.asked.is_set()


class TestRunning:
    def record(self, bundle: Bundle, arm: Arm) -> CheckRun:
        found = CheckDir(bundle, CHECK, arm).record()
        assert found is not None
        return found

    def test_what_keeps_it_from_running_stands_in_its_record(
        self, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        checks = SourceChecks(bundle, bundle.plan())
        checks.run(CHECK)
        checks.close()
        for arm in Arm:
            assert str(self.record(bundle, arm).fault).startswith("no Docker engine: ")
        wait_for_checks(bundle, (CHECK,))

    def test_it_is_not_run_again_until_it_is_green(self, bundle: Bundle) -> None:
        end(bundle, *Arm)
        before = [self.record(bundle, arm) for arm in Arm]
        SourceChecks(bundle, bundle.plan()).run(CHECK)
        assert [self.record(bundle, arm) for arm in Arm] == before

    def test_a_lock_that_was_edited_is_a_fault(self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = bundle.root / "locks" / "candidate"
        folder.mkdir()
        (folder / "lock.json").write_text("{}", "utf-8")
        assert lock_folder_of(bundle, Arm.CANDIDATE) == folder
        monkeypatch.setattr("harness.launch.docker.engine.connect", lambda: None)
        SourceChecks(bundle, bundle.plan()).run(CHECK)
        assert "no lock" in str(self.record(bundle, Arm.CONTROL).fault)


def test_a_session_s_checks_come_from_its_plan(bundle: Bundle) -> None:
    assert checks_of(bundle.plan()) == (CHECK, OTHER)


class TestInterruption:
    @pytest.fixture
    def prepared(self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> SourceChecks:
        """Checks whose stacks have the component, on an engine that nobody asks."""
        hashes = dict.fromkeys(
            ("base_commit", "base_tree", "tree_before", "tree", "patch_sha256", "composed_sha256"), ""
        )
        empty = dict.fromkeys(("heads", "patches", "files"), ())
        names = {"packages": ("pkg",), "install": ("/opt",), "integration": None, "repository": ""}
        locked = LockedComponent.model_validate({"name": "pkg", **hashes, **empty, **names})
        checks = SourceChecks(bundle, bundle.plan())
        monkeypatch.setattr("harness.launch.docker.engine.connect", lambda: None)
        monkeypatch.setattr("harness.session.checking._components", lambda _: {"pkg": locked})
        monkeypatch.setattr("harness.session.checking.lock_folder_of", lambda *_: bundle.root / "locks")
        return checks

    def test_a_check_that_the_user_stops_has_no_end(
        self, bundle: Bundle, prepared: SourceChecks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stopped(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("harness.checks.run.run_task", stopped)
        with pytest.raises(KeyboardInterrupt):
            prepared.run(CHECK)
        assert CheckDir(bundle, CHECK, Arm.CONTROL).record() is None

    def test_a_fault_of_the_harness_is_recorded_and_raised(
        self, bundle: Bundle, prepared: SourceChecks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("unforeseen")

        monkeypatch.setattr("harness.checks.run.run_task", broken)
        with pytest.raises(RuntimeError):
            prepared.run(CHECK)
        run = CheckDir(bundle, CHECK, Arm.CONTROL).record()
        assert run is not None
        assert run.fault == "the harness failed: RuntimeError: unforeseen"
