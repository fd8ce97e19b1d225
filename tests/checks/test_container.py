"""A check's container: what it sees, how it ends, and what a hostile one can do."""

from __future__ import annotations

import hashlib
import json
import textwrap
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
import pytest

from harness.checks.container import Ran, Task, run_task
from harness.launch.docker.engine import Engine
from harness.launch.docker.labels import MARKER
from harness.records import Exit
from harness.words import Arm
from tests.checks.toy import Toy, locked_toy
from tests.containers.bench import SESSION, fakes_image
from tests.containers.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker-images")]

PATIENCE_S = 300.0
"""For a machine that has more to do; nothing here takes long by itself."""


@dataclass
class Bench:
    """Runs commands as checks."""

    engine: Engine
    reference: str
    root: Path
    toy: Toy

    def task(self, *command: str, image: dict[str, object] | None = None, **changes: Any) -> Task:
        task = Task(
            session=SESSION,
            name="check-c-control",
            image=fakes_image(self.reference, **(image or {})),
            command=command,
            folder="/qualify/source/toy",
            layers=(),
            component=self.toy.component(Arm.CANDIDATE),
            archive=None,
            timeout_s=PATIENCE_S,
            output_file=self.root / "output.log",
            output_times_file=self.root / "output.log.times.jsonl",
            container_file=self.root / "container.json",
            report_file=None,
        )
        return replace(task, **changes)

    def run(self, *command: str, image: dict[str, object] | None = None, **changes: Any) -> Ran:
        return run_task(self.engine, self.task(*command, image=image, **changes))

    def python(self, script: str, image: dict[str, object] | None = None, **changes: Any) -> Ran:
        return self.run("python3", "-c", script, image=image, **changes)

    def shell(self, script: str, **changes: Any) -> Ran:
        return self.run("sh", "-c", script, **changes)

    @property
    def output(self) -> str:
        return (self.root / "output.log").read_text("utf-8")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return locked_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def bench(engine: Engine, reference: str, tmp_path: Path, toy: Toy) -> Bench:
    return Bench(engine, reference, tmp_path, toy)


def how(ran: Ran) -> Exit:
    assert ran.fault is None
    assert ran.exit is not None
    return ran.exit


class TestWhatItSees:
    def test_no_network_but_its_own_loopback(self, bench: Bench) -> None:
        bench.shell("ls /sys/class/net; cat /proc/net/route | tail -n +2")
        assert bench.output.split() == ["lo"]

    def test_no_gpu_and_no_right(self, bench: Bench) -> None:
        bench.shell("grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs)' /proc/self/status; echo $NVIDIA_VISIBLE_DEVICES")
        assert bench.output.split()[1::2] == ["0" * 16, "0" * 16, "0" * 16, "1"]
        assert bench.output.split()[-1] == "void"

    def test_the_tests_of_the_lock_read_only(self, bench: Bench, toy: Toy) -> None:
        archive = toy.folders[Arm.CANDIDATE] / toy.component(Arm.CANDIDATE).composed_file
        bench.shell("ls tests; touch tests/x 2>&1; touch /qualify/out/x && echo out", archive=archive)
        *files, refused, out = bench.output.splitlines()
        assert files == [f"test_{name}.py" for name in ("extra", "half", "keep", "needs", "old")]
        assert "Read-only file system" in refused
        assert out == "out"

    def test_the_arms_environment_over_the_harness_s_and_none_of_the_users(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_planted")
        layers = ({"A": "profile", "B": "profile"}, {"B": "stack", "NVIDIA_VISIBLE_DEVICES": "all"})
        ran = bench.run("env", layers=layers)
        seen = dict(line.split("=", 1) for line in bench.output.splitlines())
        assert (seen["A"], seen["B"], seen["NVIDIA_VISIBLE_DEVICES"]) == ("profile", "stack", "void")
        assert seen["HOME"] == "/qualify/work/home"
        assert "hf_planted" not in bench.output
        assert ran.env["B"] == "stack"

    def test_programs_of_the_image_are_found_on_its_own_path(self, bench: Bench) -> None:
        bench.run("env")
        assert "PATH=/opt/image/bin:/usr/local/bin:/usr/bin:/bin\n" in bench.output


class TestEnds:
    def test_output_is_kept_and_hashed_as_it_came(self, bench: Bench) -> None:
        ran = bench.python("import os; os.write(1, bytes(range(256))); os.write(2, b'err')")
        content = (bench.root / "output.log").read_bytes()
        # An engine that is busy reads the two streams in either order.
        assert (how(ran).code, content.replace(b"err", b"", 1)) == (0, bytes(range(256)))
        assert (ran.output_sha256, ran.output_bytes) == (hashlib.sha256(content).hexdigest(), 259)

    def test_its_exit_code(self, bench: Bench) -> None:
        assert how(bench.shell("exit 5")).code == 5

    def test_its_time_is_limited(self, bench: Bench) -> None:
        ran = bench.shell("trap '' TERM; echo up; while :; do sleep 1; done", timeout_s=5.0)
        assert ran.stopped == "it did not end within 5 s"
        assert (how(ran).asked, how(ran).signal, bench.output) == (True, "SIGKILL", "up\n")

    def test_out_of_memory_is_told_apart(self, bench: Bench) -> None:
        ran = bench.python("x = b'x' * (200 << 20)", image={"mem_limit_mib": 64})
        assert how(ran).oom_killed

    def test_a_program_that_is_not_in_the_image(self, bench: Bench) -> None:
        assert how(bench.run("no-such-tool")).error == "exec no-such-tool failed: No such file or directory"

    def test_an_image_that_is_not_here_is_a_fault(self, bench: Bench) -> None:
        image = bench.task("true").image.model_copy(update={"reference": f"sha256:{'0' * 64}"})
        ran = run_task(bench.engine, replace(bench.task("true"), image=image))
        assert ran.exit is None
        assert str(ran.fault).startswith("no container can be made: ")

    def test_a_mount_that_is_not_there_is_a_fault(self, bench: Bench) -> None:
        ran = bench.run("true", image={"mounts": ({"source": "/no/such", "target": "/x"},)})
        assert "/no/such does not exist" in str(ran.fault)

    def test_nothing_is_left(
        self, bench: Bench, client: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        bench.shell("echo x > /qualify/work/x")
        assert not client.api.containers(all=True, filters={"label": f"qualify.session={SESSION}"})
        assert list(tmp_path.glob("qualify-*")) == []

    def test_its_description_names_its_owner(self, bench: Bench) -> None:
        bench.shell("true")
        found = json.loads((bench.root / "container.json").read_bytes())
        assert MARKER in found["Config"]["Labels"]
        assert found["HostConfig"]["NetworkMode"] == "none"
        assert found["State"]["Status"] == "exited"

    def test_another_hand_that_kills_it_is_no_arm_s_doing(self, bench: Bench, client: docker.DockerClient) -> None:
        found: list[Ran] = []
        thread = threading.Thread(target=lambda: found.append(bench.shell("echo up; sleep 600")))
        thread.start()
        until(lambda: (bench.root / "output.log").is_file() and bench.output, timeout_s=PATIENCE_S)
        # The engine lists it as running a moment after it has spoken.
        label = f"qualify.session={SESSION}"
        [ours] = until(lambda: client.api.containers(filters={"label": label}), timeout_s=PATIENCE_S)
        client.api.kill(ours["Id"])
        thread.join(PATIENCE_S)
        assert "somebody told the engine to send SIGKILL" in str(found[0].fault)


class TestHostile:
    def test_output_without_end_is_cut(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("harness.checks.container.OUTPUT_LIMIT_BYTES", 10 << 20)
        ran = bench.python("import os\nwhile True: os.write(1, b'x' * 65536)")
        assert ran.stopped == "it printed more than 10 MiB"
        content = (bench.root / "output.log").read_bytes()
        assert ran.output_sha256 == hashlib.sha256(content).hexdigest(), "what was printed is evidence all the same"

    def test_processes_that_outlive_it_end_with_it(self, bench: Bench) -> None:
        ran = bench.shell("(trap '' TERM HUP; while :; do sleep 1; done) & echo done")
        assert (how(ran).code, ran.stopped, bench.output) == (0, None, "done\n")

    def test_a_fork_bomb_stays_in_its_bounds(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("harness.checks.container.PIDS_LIMIT", 64)
        script = """
            import os, time
            started = 0
            try:
                for _ in range(1000):
                    if os.fork() == 0:
                        time.sleep(600)
                    started += 1
            except OSError as e:
                print(started < 64, e.errno)
        """
        ran = bench.python(textwrap.dedent(script))
        assert (how(ran).code, bench.output) == (0, "True 11\n")

    @pytest.mark.parametrize(
        ("script", "why"),
        [
            ("true", "it left none"),
            ("ln -s /etc/hostname {}", "what it left cannot be read: "),
            ("mkfifo {}", "what it left is no file"),
            ("mkdir {}", "what it left cannot be read: "),
            ("head -c 2000000 /dev/zero > {}", "it is longer than 1 MiB"),
            ("rm -rf /qualify/out; echo x > {}; rm {}", "it left none"),
        ],
        ids=["nothing", "a link", "a pipe", "a folder", "too much", "deleted"],
    )
    def test_a_report_that_is_no_file_is_not_taken_over(
        self, bench: Bench, script: str, why: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("harness.checks.container.REPORT_LIMIT_BYTES", 1 << 20)
        report = bench.root / "junit.xml"
        ran = bench.shell(script.replace("{}", "/qualify/out/junit.xml"), report_file=report)
        assert ran.report_sha256 is None
        assert str(ran.report_fault).startswith(why)
        assert not report.exists()

    def test_a_report_is_taken_over_and_hashed(self, bench: Bench) -> None:
        report = bench.root / "junit.xml"
        ran = bench.shell("echo '<testsuites/>' > /qualify/out/junit.xml", report_file=report)
        assert report.read_bytes() == b"<testsuites/>\n"
        assert ran.report_sha256 == hashlib.sha256(report.read_bytes()).hexdigest()


def test_ctrl_c_removes_the_container(
    bench: Bench, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.checks.container._wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.shell("sleep 60")
    assert not client.api.containers(all=True, filters={"label": f"qualify.session={SESSION}"})
