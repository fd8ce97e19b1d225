"""Whole sessions in containers, through the command line: the fake server inside a small image."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from harness.judge.case import read_case
from harness.judge.read import LaunchEvidence
from harness.observe.jit.trace import read_trace
from harness.paths import PROJECT
from harness.records import LaunchRecord
from harness.words import Arm, ExitCode, LaunchStatus, Word
from tests.containers.bench import FAKES
from tests.containers.daemon import Daemon, second_engine

from .sessions import FAKE_PROFILE, SLOW, Finished, run, stack, start, wait_for

HOG = "/opt/hog"
OURS = {"label": "qualify.marker"}

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]


def docker_profile(folder: Path, reference: str) -> str:
    """The profile of the fake server, in the test image; mounted beside it lies a program that eats memory."""
    (folder / "hog").mkdir()
    (folder / "hog" / "sitecustomize.py").write_text("hog = b'x' * (500 << 20)\n", "utf-8")
    text = FAKE_PROFILE.format(python="python3").replace('name = "fake"', 'name = "fake"\nlauncher = "docker"')
    image = f"""
        [serve.env]
        PYTHONPATH = "{FAKES}"

        [image]
        reference = "{reference}"
        shm_size_gib = 1
        mem_limit_mib = 200
        mounts = [
          {{ source = "{PROJECT}/harness", target = "{FAKES}/harness" }},
          {{ source = "{folder}/hog", target = "{HOG}" }},
        ]
    """
    path = folder / "fake.toml"
    path.write_text(text + image, "utf-8")
    return str(path)


def left(client: docker.DockerClient, results: Path) -> list[str]:
    """Launches of these sessions whose container or network is still there."""
    sessions = {p.name for p in results.glob("*-fake-*")}
    found = [*client.api.containers(all=True, filters=OURS), *client.api.networks(filters=OURS)]
    return [x["Labels"]["qualify.launch"] for x in found if x["Labels"]["qualify.session"] in sessions]


def launches(done: Finished) -> dict[Arm, LaunchEvidence]:
    return {x.record.launch.arm: x for x in read_case(done.bundle).launches.values() if x.record is not None}


def record(done: Finished, arm: Arm) -> LaunchRecord:
    found = launches(done)[arm].record
    assert found is not None
    return found


def description(done: Finished, arm: Arm) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(launches(done)[arm].folder.container_file.read_bytes())
    return found


def asking(results: Path) -> Callable[[], bool]:
    """True once a server of the session has been asked something."""
    return lambda: any(results.glob("*-fake-*/launches/*/requests.jsonl"))


@pytest.fixture
def profile(reference: str, tmp_path: Path) -> str:
    return docker_profile(tmp_path, reference)


@pytest.fixture
def results(tmp_path: Path, client: docker.DockerClient) -> Iterator[Path]:
    """Where sessions go; nothing of them may be left on the engine afterwards."""
    results = tmp_path / "results"
    yield results
    assert left(client, results) == []


@pytest.fixture(scope="module")
def done(reference: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One session for all that a good one shows: both arms, cold and warm."""
    folder = tmp_path_factory.mktemp("session")
    return run(folder / "results", "--profile", docker_profile(folder, reference), "--caches", "cold,warm")


def test_the_tracer_works_inside_a_container(profile: str, results: Path, tmp_path: Path) -> None:
    control = stack(tmp_path, "seeing", QUALIFY_FAKE_FAULTS="trace-sees")
    candidate = stack(tmp_path, "late", QUALIFY_FAKE_FAULTS="trace-late=_topk_kernel")
    arms = ("--control", str(control), "--candidate", str(candidate))
    done = run(results, "--profile", profile, *arms, "--set", "plan.trace=true")
    found = [(x, x.record) for x in read_case(done.bundle).launches.values() if x.record is not None]
    traced = [(x, record) for x, record in found if record.launch.trace]
    assert {record.env["PYTHONPATH"] for _, record in traced} == {f"/qualify/tracer:{FAKES}"}
    row = done.row("late JIT (tracer)")
    assert (row.word, row.candidate) == (Word.FAIL, "_topk_kernel"), row
    assert all(read_trace(x.folder.trace_dir).processes for x, _ in traced)


class TestEqualArms:
    def test_they_pass(self, done: Finished) -> None:
        assert done.code == ExitCode.PASS, done.out
        assert done.verdict.verdict is Word.PASS
        assert {r.word for r in done.rows("identity, candidate vs control")} == {Word.PASS}
        assert {r.word for r in done.rows("known answers")} == {Word.PASS}
        assert len(done.rows("served to the end", word=Word.PASS)) == 2

    def test_every_launch_was_a_container_of_the_pinned_image(self, done: Finished, reference: str, base: str) -> None:
        found = [x.record for x in read_case(done.bundle).launches.values()]
        facts = [r.container for r in found if r is not None and r.container is not None]
        assert len({f.container_id for f in facts}) == len(found) == 4
        assert {(f.image_reference, f.image_id, f.restarts) for f in facts} == {(reference, base, 0)}

    def test_the_evidence_names_what_the_server_saw(self, done: Finished) -> None:
        control = record(done, Arm.CONTROL)
        assert control.argv[:5] == ("python3", "-m", "harness.fakes", "serve", "/qualify/model")
        assert control.effective_argv == control.argv
        assert control.env["TRITON_CACHE_DIR"] == "/qualify/caches/triton"
        assert description(done, Arm.CONTROL)["State"]["Status"] == "exited"
        assert control.exit is not None
        assert (control.exit.code, control.exit.asked) == (0, True)

    def test_start_up_begins_with_the_containers_start(self, done: Finished) -> None:
        marks = launches(done)[Arm.CONTROL].marks
        assert marks[0].mark == "process started"
        assert all(marks[0].mono_ns < m.mono_ns for m in marks[1:])

    def test_memory_of_its_processes_was_sampled(self, done: Finished) -> None:
        import pandas as pd

        samples = pd.read_parquet(launches(done)[Arm.CONTROL].folder.host_samples_file)
        assert samples["process"].str.startswith("python3:").all()
        assert samples["rss_bytes"].max() > 10 << 20

    def test_the_log_is_whole_and_hashed_at_its_source(self, done: Finished) -> None:
        for launch in read_case(done.bundle).launches.values():
            log = launch.folder.log_file.read_bytes()
            assert launch.record is not None
            assert launch.record.log_bytes == len(log)
            assert b"Finished server process" in log.splitlines()[-1]

    def test_the_report_is_written(self, done: Finished) -> None:
        assert (done.bundle.report_dir / "report.html").is_file()


class TestFaults:
    @pytest.mark.parametrize(
        ("env", "told"),
        [
            ({"QUALIFY_FAKE_FAULTS": "die-at-start"}, "failed at health: the server ended by itself (exit code 1)"),
            ({"QUALIFY_FAKE_FAULTS": "die-after=4"}, "failed at after ready: the server ended by itself (exit code 1)"),
            (
                {"PYTHONPATH": f"{HOG}:{FAKES}"},
                "failed at health: the server ended by itself (out of memory: killed by the kernel's OOM killer, ",
            ),
        ],
        ids=["dies at start", "dies after ready", "out of memory"],
    )
    def test_a_candidate_that_dies_fails_with_how(
        self, results: Path, profile: str, tmp_path: Path, env: dict[str, str], told: str
    ) -> None:
        done = run(results, "--profile", profile, "--candidate", str(stack(tmp_path, "faulty", **env)))
        row = done.row("served to the end")
        assert (done.code, row.word) == (ExitCode.FAIL, Word.FAIL), done.out
        assert told in row.reason
        assert record(done, Arm.CONTROL).status is LaunchStatus.COMPLETED

    def test_an_engine_that_is_not_in_the_image_is_named(self, results: Path, profile: str) -> None:
        done = run(results, "--profile", profile, "--set", 'engine.command=["/no/such/vllm"]')
        assert done.code == ExitCode.SETUP_FAILURE, done.out
        assert "exec /no/such/vllm failed: No such file or directory" in done.row("served to the end").reason

    def test_a_secret_of_the_user_reaches_no_container(
        self, results: Path, profile: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_planted")
        done = run(results, "--profile", profile)
        for path in done.bundle.root.rglob("*"):
            assert path.is_dir() or b"hf_planted" not in path.read_bytes(), path


class TestPreflight:
    """What is missing is named before anything is started, and leaves no bundle."""

    def refused(self, results: Path, *arguments: str) -> str:
        done = run(results, *arguments)
        assert done.code == ExitCode.SETUP_FAILURE, done.out
        assert "Traceback" not in done.out
        assert not list(results.glob("*-*/plan.json"))
        return done.out

    @pytest.mark.parametrize("name", ["rtx5090", "rtxpro6000x4"])
    def test_gpus(self, results: Path, name: str) -> None:
        assert f"profile {name} needs " in (out := self.refused(results, "--profile", name))
        assert "RTX" in out

    def test_an_image(self, results: Path, profile: str, host: str) -> None:
        wrong = f"{host}/qualify-test/base@sha256:{'0' * 64}"
        out = self.refused(results, "--profile", profile, "--set", f"image.reference={wrong}")
        assert f"image {wrong} is not on this host and cannot be fetched" in out
        assert f"fetching {wrong}" in out

    def test_an_engine(self, results: Path, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        assert "no Docker engine: " in self.refused(results, "--profile", profile)

    def test_a_mounted_folder(self, results: Path, profile: str) -> None:
        mounts = 'image.mounts=[{source="/no/such", target="/x"}]'
        assert "/no/such does not exist" in self.refused(results, "--profile", profile, "--set", mounts)

    def test_a_tag_is_no_pin(self, results: Path, profile: str) -> None:
        done = run(results, "--profile", profile, "--set", "image.reference=vllm/vllm-openai:latest")
        assert done.code == ExitCode.USAGE
        assert "key `image.reference`: `vllm/vllm-openai:latest` is not pinned; write name@sha256:" in done.out


class TestInterruption:
    def test_ctrl_c_leaves_nothing_running(self, results: Path, profile: str) -> None:
        process = start(results, "--profile", profile, *SLOW)
        wait_for(asking(results))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=90)
        assert process.returncode == ExitCode.VOID, out

    def test_after_a_kill_the_next_session_removes_what_was_left_and_nothing_else(
        self, results: Path, profile: str, client: docker.DockerClient, bystander: Container
    ) -> None:
        process = start(results, "--profile", profile, *SLOW)
        wait_for(asking(results))
        process.kill()
        process.communicate(timeout=90)
        assert left(client, results) == ["001-candidate-mtp1-engine-cold"] * 2
        done = run(results, "--profile", profile)
        bystander.reload()
        assert bystander.status == "running"
        assert "cleaned up: 001-candidate-mtp1-engine-cold: container " in done.out
        assert "cleaned up: 001-candidate-mtp1-engine-cold: network " in done.out
        assert done.code == ExitCode.PASS

    def test_clean_removes_it_too(self, results: Path, profile: str, client: docker.DockerClient) -> None:
        process = start(results, "--profile", profile, *SLOW)
        wait_for(asking(results))
        process.kill()
        process.communicate(timeout=90)
        caches = [p for p in (results / ".work" / "caches").rglob("*") if p.is_file()]
        assert all(p.stat().st_uid == os.getuid() for p in caches)
        done = run(results, program=("-m", "harness.cli", "clean"))
        assert "container " in done.out
        assert left(client, results) == []


class TestEngineThatGoesAway:
    @pytest.fixture
    def daemon(self) -> Iterator[Daemon]:
        with second_engine() as daemon:
            yield daemon

    def test_in_mid_run_it_is_a_setup_failure_and_the_evidence_stays(
        self, results: Path, profile: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DOCKER_HOST", daemon.address)
        process = start(results, "--profile", profile, *SLOW)
        wait_for(lambda: any(results.glob("*-fake-*/launches/*/image.json")), seconds=60)
        daemon.end()
        out, _ = process.communicate(timeout=90)
        done = Finished(process.returncode, out, results)
        assert done.code == ExitCode.SETUP_FAILURE, out
        row = done.row("served to the end")
        assert (row.word, "does not answer any more" in row.reason) == (Word.SETUP_FAILURE, True)
        first = record(done, Arm.CANDIDATE)
        assert first.stage == "engine"
        assert first.log_bytes == len(launches(done)[Arm.CANDIDATE].folder.log_file.read_bytes()) > 0
        assert description(done, Arm.CANDIDATE)["State"]["Status"] == "running", "as it was last seen"
        assert (done.bundle.root / "SHA256SUMS").is_file()

        daemon.start()
        cleaned = run(results, program=("-m", "harness.cli", "clean"))
        assert f"{first.launch.id}: container " in cleaned.out, "what the engine still held, the next command removes"
