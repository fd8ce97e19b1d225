"""What runs is what was locked: read back from the running container, or the launch is a setup failure."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from harness.errors import SetupFailure
from harness.image.identity import ExpectedImage, Verification, expected_image
from harness.image.names import LOCK
from harness.image.verify import raise_for, verify_image, verify_running
from harness.launch.docker import labels
from harness.launch.docker.engine import Engine
from tests.containers.bench import FAKES, Bench, Running
from tests.containers.waiting import until, until_answers
from tests.image import toy

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker-images")]

SERVE = ("serve", "{model}", "--host", "{host}", "--port", "{port}", "--served-model-name", "tiny")
WRITE = "from pathlib import Path\nPath({path!r}).parent.mkdir(exist_ok=True)\nPath({path!r}).write_bytes({content!r})"
COMPILE_OLD = """
import os, py_compile
from pathlib import Path
source = Path({path!r})
new, times = source.read_bytes(), (1_700_000_000, 1_700_000_000)
source.write_bytes({old!r})
os.utime(source, times)
py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.{mode})
source.write_bytes(new)
os.utime(source, times)
"""
IMPORT = "import toy.kernel; print(toy.kernel.VALUE, toy.kernel.__file__)"
KERNEL, TWIN = f"{toy.OPT}/toy/kernel.py", f"{toy.DIST}/toy/kernel.py"
BOTH = f"{toy.OPT} or {toy.DIST}"
NEW, OLD = toy.sha256(toy.NEW), toy.sha256(toy.OLD)


def expected(built: toy.Built, **changes: object) -> ExpectedImage:
    return expected_image(toy.lock(), built.id, tag=built.tag).model_copy(update=changes)


def verify(engine: Engine, of: Container, what: ExpectedImage, command: Sequence[str] = toy.COMMAND) -> Verification:
    return verify_running(engine, str(of.id), what, base_url=None, served_model=None, command=command)


def told(verification: Verification) -> list[str]:
    return [str(m) for m in verification.mismatches]


def write(where: Container, path: str, content: bytes) -> None:
    toy.change(where, WRITE.format(path=path, content=content))


class TestTheRightOne:
    def test_it_passes_and_everything_that_was_looked_at_is_kept(
        self, engine: Engine, built_toy: toy.Built, running_toy: Container
    ) -> None:
        verification = verify(engine, running_toy, expected(built_toy))
        raise_for(verification)
        found = verification.found
        assert (found.image_id, found.tag_image_id, found.restarts) == (built_toy.id, built_toy.id, 0)
        assert found.container_id == running_toy.id
        assert found.labels[LOCK] == toy.lock().sha256
        assert found.engine_command == ("/usr/bin/python3",)
        assert found.probed is not None
        package = found.probed.packages["toy"]
        assert package.origin == f"{toy.OPT}/toy/__init__.py"
        assert package.on_path == (toy.OPT, toy.DIST)
        assert {p: f.sha256 for p, f in package.files.items()} == verification.expected.files

    def test_python_agrees(self, running_toy: Container) -> None:
        assert toy.change(running_toy, IMPORT) == f"new {KERNEL}"

    def test_the_probe_leaves_no_trace(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        before = sorted(x["Path"] for x in running_toy.diff())
        verify(engine, running_toy, expected(built_toy))
        assert sorted(x["Path"] for x in running_toy.diff()) == before

    def test_the_path_is_the_servers(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        """A script puts its own folder in front, and never the working folder."""
        probed = verify(engine, running_toy, expected(built_toy)).found.probed
        assert probed is not None
        assert probed.path[0] == "/usr/local/bin"
        assert "/" not in probed.path


class TestAnotherImage:
    def test_behind_the_same_tag(self, engine: Engine, client: docker.DockerClient, base: str) -> None:
        """The tag says the right thing, the container is older than that."""
        right, name = toy.files(), "qualify-test/toy"
        tag = f"{name}:moved"
        wrong = right | {TWIN: toy.OLD}
        labels = toy.labels(toy.lock())
        with toy.image(client, base, wrong, labels) as old, toy.image(client, base, right, labels) as new:
            client.api.tag(old.id, name, "moved")
            with toy.container(client, tag) as running:
                client.api.tag(new.id, name, "moved")
                verification = verify(engine, running, expected_image(toy.lock(), new.id, tag=tag))
            client.images.remove(tag)
        assert told(verification) == [
            f"image id of the container: expected {new.id}, found {old.id}",
            f"{TWIN}: expected {NEW}, found {OLD}",
        ]

    def test_the_tag_moved_after_the_start(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        gone = "qualify-test/toy:nobody-has-it"
        verification = verify(engine, running_toy, expected(built_toy, tag=gone))
        assert told(verification) == [f"image behind tag {gone}: expected {built_toy.id}, found nothing"]

    def test_labels_of_another_lock(
        self, engine: Engine, client: docker.DockerClient, base: str, built_toy: toy.Built
    ) -> None:
        del built_toy
        with toy.image(client, base, toy.files(), {LOCK: "0" * 64}) as other:
            verification = verify_image(engine, expected(other), command=toy.COMMAND)
        assert told(verification) == [
            f"label org.opencontainers.image.base.digest: expected {toy.BASE_DIGEST}, found nothing",
            f"label qualify.image.lock-sha256: expected {toy.lock().sha256}, found {'0' * 64}",
        ]

    def test_a_manifest_digest_that_the_engine_does_not_know(
        self, engine: Engine, built_toy: toy.Built, running_toy: Container
    ) -> None:
        digest = f"sha256:{'d' * 64}"
        verification = verify(engine, running_toy, expected(built_toy, manifest_digest=digest))
        [mismatch] = verification.mismatches
        assert (mismatch.what, mismatch.expected) == ("manifest digest", digest)


class TestFiles:
    def test_a_patch_that_reached_one_copy_of_two(
        self, engine: Engine, client: docker.DockerClient, base: str, built_toy: toy.Built
    ) -> None:
        del built_toy
        with toy.image(client, base, toy.files() | {KERNEL: toy.OLD}, toy.labels(toy.lock())) as half:
            verification = verify_image(engine, expected(half), command=toy.COMMAND)
        assert told(verification) == [f"{KERNEL}: expected {NEW}, found {OLD}"]
        assert verification.found.probed is not None
        assert verification.found.probed.packages["toy"].files[TWIN].sha256 == NEW

    def test_an_edit_after_the_start(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        raise_for(verify(engine, running_toy, expected(built_toy)))
        write(running_toy, KERNEL, b"VALUE = 'edited'\n")
        verification = verify(engine, running_toy, expected(built_toy))
        edited = toy.sha256(b"VALUE = 'edited'\n")
        with pytest.raises(SetupFailure, match=rf"(?s)is not what was to be measured:.*{KERNEL}: .*found {edited}"):
            raise_for(verification)

    def test_one_that_is_to_be_gone(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        write(running_toy, f"{toy.DIST}/toy/gone.py", toy.OLD)
        verification = verify(engine, running_toy, expected(built_toy))
        assert told(verification) == [f"{toy.DIST}/toy/gone.py: expected no file, found {OLD}"]

    def test_every_one_is_named(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        for path in (KERNEL, TWIN, f"{toy.OPT}/toy/gone.py"):
            write(running_toy, path, b"# edited\n")
        with pytest.raises(SetupFailure) as caught:
            raise_for(verify(engine, running_toy, expected(built_toy)))
        assert str(caught.value).count("expected ") == 3

    @pytest.mark.parametrize("mode", ["TIMESTAMP", "UNCHECKED_HASH"])
    def test_a_pyc_that_python_runs_instead(
        self, engine: Engine, built_toy: toy.Built, running_toy: Container, mode: str
    ) -> None:
        """The source is the right one, byte for byte, and Python runs the old code."""
        toy.change(running_toy, COMPILE_OLD.format(path=KERNEL, old=toy.OLD, mode=mode))
        assert toy.change(running_toy, IMPORT) == f"old {KERNEL}"
        verification = verify(engine, running_toy, expected(built_toy))
        place = f"{toy.OPT}/toy/__pycache__/kernel.cpython-311.pyc"
        assert told(verification) == [f"{KERNEL}: expected no .pyc that hides it, found {place} holds other code"]

    def test_a_pyc_of_a_source_that_is_gone(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        write(running_toy, f"{toy.OPT}/toy/gone.pyc", b"x")
        verification = verify(engine, running_toy, expected(built_toy))
        assert told(verification) == [
            f"{toy.OPT}/toy/gone.py: expected nothing that Python imports in its place, found {toy.OPT}/toy/gone.pyc"
        ]


class TestTheContainerThatIsMadeToLook:
    def test_it_sees_nothing_and_may_nothing(
        self, engine: Engine, built_toy: toy.Built, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked: list[dict[str, Any]] = []
        remove = Engine.remove

        def look_and_remove(engine: Engine, container: str) -> None:
            looked.append(engine.inspect(container))
            remove(engine, container)

        monkeypatch.setattr(Engine, "remove", look_and_remove)
        verify_image(engine, expected(built_toy), command=toy.COMMAND)
        [made] = looked
        host = made["HostConfig"]
        assert (host["NetworkMode"], host["CapDrop"], host["ReadonlyRootfs"]) == ("none", ["ALL"], True)
        assert [m for m in made["Mounts"] if m["Type"] != "volume"] == []
        assert made["Config"]["User"] == f"{os.getuid()}:{os.getgid()}"

    def test_one_that_a_killed_harness_left_is_found(
        self, engine: Engine, built_toy: toy.Built, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        left: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "remove", lambda _, container: left.append(container))
            verify_image(engine, expected(built_toy), command=toy.COMMAND)
        try:
            [found] = [x for x in engine.containers(labels.MARKER) if x.id in left]
        finally:
            engine.remove(left[0])
        assert not labels.is_abandoned(found.labels)
        assert labels.is_abandoned(found.labels | {"qualify.owner-started": "1"})


class TestCopies:
    def test_a_third_one_that_is_imported(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        write(running_toy, f"{toy.THIRD}/toy/__init__.py", b"")
        write(running_toy, f"{toy.THIRD}/toy/kernel.py", toy.OLD)
        assert toy.change(running_toy, IMPORT) == f"old {toy.THIRD}/toy/kernel.py"
        verification = verify(engine, running_toy, expected(built_toy))
        found = f"imported from {toy.THIRD}, where 1 of 2 patched files differ"
        assert told(verification) == [f"package toy: expected copies in {BOTH} and no others, found {found}"]

    def test_a_third_one_beside_them(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        toy.change(running_toy, "import os; os.makedirs('/opt/late/toy'); open('/opt/late/toy/__init__.py', 'w')")
        write(running_toy, f"{toy.THIRD}/zzz.pth", b"/opt/late\n")
        verification = verify(engine, running_toy, expected(built_toy))
        assert [m.found for m in verification.mismatches] == [
            "an installed copy in /opt/late, where 1 of 2 patched files differ"
        ]

    def test_one_behind_a_link_is_no_other(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        toy.change(running_toy, f"import os; os.symlink('{toy.OPT}/toy', '{toy.THIRD}/toy')")
        raise_for(verify(engine, running_toy, expected(built_toy)))

    def test_a_package_that_python_does_not_find(
        self, engine: Engine, client: docker.DockerClient, built_toy: toy.Built
    ) -> None:
        with toy.container(client, built_toy.tag, environment={"PYTHONPATH": ""}) as running:
            toy.change(running, f"import shutil; shutil.rmtree('{toy.DIST}/toy'); shutil.rmtree('{toy.OPT}/toy')")
            mismatches = verify(engine, running, expected(built_toy)).mismatches
        assert [m.what for m in mismatches] == ["package toy", KERNEL, TWIN]
        assert mismatches[0].found == "no such package"


class TestTheContainer:
    def test_one_that_started_again(self, engine: Engine, client: docker.DockerClient, built_toy: toy.Built) -> None:
        again = ["sh", "-c", "test -e /once && exec sleep 600; touch /once; exit 1"]
        policy = {"Name": "on-failure", "MaximumRetryCount": 3}
        with toy.container(client, built_toy.tag, entrypoint=again, init=False, restart_policy=policy) as running:
            until(lambda: engine.inspect(str(running.id))["RestartCount"])
            until(lambda: engine.inspect(str(running.id))["State"]["Status"] == "running")
            verification = verify(engine, running, expected(built_toy))
        assert told(verification) == ["restarts of the container: expected 0, found 1"]

    def test_one_that_has_ended(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        running_toy.kill()
        verification = verify(engine, running_toy, expected(built_toy))
        assert told(verification) == [
            "state of the container: expected running, found ended",
            f"package toy: expected imported from {BOTH}, found not looked at",
        ]

    def test_a_server_that_another_program_runs(
        self, engine: Engine, client: docker.DockerClient, built_toy: toy.Built
    ) -> None:
        with toy.container(client, built_toy.tag, entrypoint=["sleep", "600"]) as running:
            verification = verify(engine, running, expected(built_toy))
        assert told(verification) == ["program of the server: expected /usr/bin/python3.11, found /usr/bin/sleep"]

    def test_a_command_that_is_no_python(self, engine: Engine, built_toy: toy.Built, running_toy: Container) -> None:
        write(running_toy, "/usr/local/bin/wrapped", b'#!/bin/sh\nexec toy "$@"\n')
        toy.change(running_toy, "import os; os.chmod('/usr/local/bin/wrapped', 0o755)")
        with pytest.raises(SetupFailure, match="wrapped in the image is a script of /bin/sh, no Python"):
            verify(engine, running_toy, expected(built_toy), command=["wrapped"])

    def test_a_command_that_is_not_there(self, engine: Engine, built_toy: toy.Built) -> None:
        with pytest.raises(SetupFailure, match=r"engine.command: vllm cannot be found in the image"):
            verify_image(engine, expected(built_toy), command=["vllm"])


class TestTheServer:
    """The fake server, started by the launcher as in a session, from the console script of the toy."""

    @pytest.fixture
    def server(self, toy_servers: Bench, toy_model: Path) -> Running:
        server = toy_servers.start(*SERVE, command=toy.COMMAND, model=str(toy_model))
        until_answers(f"{server.server.base_url}/health")
        return server

    def asked(self, engine: Engine, server: Running, what: ExpectedImage, served_model: str) -> Verification:
        return verify_running(
            engine,
            server.id,
            what,
            base_url=server.server.base_url,
            served_model=served_model,
            command=toy.COMMAND,
            log_file=server.spec.log_file,
        )

    def test_all_that_it_says_of_itself_is_read(self, engine: Engine, built_toy: toy.Built, server: Running) -> None:
        verification = self.asked(engine, server, expected(built_toy), "tiny")
        raise_for(verification)
        found = verification.found
        assert found.served_models == ("tiny",)
        assert found.log_version == found.api_version != ""
        assert found.probed is not None
        assert found.probed.servers == ("/usr/bin/python3.11",)
        assert found.probed.path[:2] == ("/usr/local/bin", FAKES)

    def test_another_model(self, engine: Engine, built_toy: toy.Built, server: Running) -> None:
        verification = self.asked(engine, server, expected(built_toy), "large")
        assert told(verification) == ["model that /v1/models names: expected large, found tiny"]

    def test_a_log_of_another_version(
        self, engine: Engine, built_toy: toy.Built, server: Running, tmp_path: Path
    ) -> None:
        other = tmp_path / "other.log"
        other.write_text("Initializing a V1 LLM engine (v0.1.2) with config: ...\n", "utf-8")
        spec = dataclasses.replace(server.spec, log_file=other)
        verification = self.asked(engine, dataclasses.replace(server, spec=spec), expected(built_toy), "tiny")
        [mismatch] = verification.mismatches
        assert mismatch.expected == "one; the log says 0.1.2"
        assert mismatch.found == verification.found.api_version

    def test_a_server_that_does_not_answer(self, engine: Engine, built_toy: toy.Built, server: Running) -> None:
        verification = verify_running(
            engine,
            server.id,
            expected(built_toy),
            base_url="http://127.0.0.1:1",
            served_model="tiny",
            command=toy.COMMAND,
        )
        assert told(verification) == ["model that /v1/models names: expected tiny, found no answer"]
        assert (verification.found.served_models, verification.found.api_version) == (None, None)
