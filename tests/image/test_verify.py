"""What runs is what was locked: read back from the running container, or the launch is a setup failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from harness.errors import SetupFailure
from harness.image.identity import LOCK_LABEL, ExpectedImage, Verification, expected_image
from harness.image.verify import raise_for, verify_image, verify_running
from harness.launch.docker.engine import Engine
from tests.containers.bench import Bench, Running
from tests.containers.registry import push
from tests.containers.waiting import until, until_answers
from tests.image import toy

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

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
        self, engine: Engine, built: toy.Built, running: Container
    ) -> None:
        verification = verify(engine, running, expected(built))
        raise_for(verification)
        found = verification.found
        assert (found.image_id, found.tag_image_id, found.restarts) == (built.id, built.id, 0)
        assert found.container_id == running.id
        assert found.labels[LOCK_LABEL] == toy.lock().sha256
        assert found.engine_command == ("/usr/bin/python3",)
        assert found.probed is not None
        package = found.probed.packages["toy"]
        assert package.origin == f"{toy.OPT}/toy/__init__.py"
        assert package.on_path == (toy.OPT, toy.DIST)
        assert {p: f.sha256 for p, f in package.files.items()} == verification.expected.files

    def test_python_agrees(self, running: Container) -> None:
        assert toy.change(running, IMPORT) == f"new {KERNEL}"

    def test_the_probe_leaves_no_trace(self, engine: Engine, built: toy.Built, running: Container) -> None:
        before = sorted(x["Path"] for x in running.diff())
        verify(engine, running, expected(built))
        assert sorted(x["Path"] for x in running.diff()) == before

    def test_the_path_is_the_servers(self, engine: Engine, built: toy.Built, running: Container) -> None:
        """A script puts its own folder in front, and never the working folder."""
        probed = verify(engine, running, expected(built)).found.probed
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

    def test_the_tag_moved_after_the_start(self, engine: Engine, built: toy.Built, running: Container) -> None:
        gone = "qualify-test/toy:nobody-has-it"
        verification = verify(engine, running, expected(built, tag=gone))
        assert told(verification) == [f"image behind tag {gone}: expected {built.id}, found nothing"]

    def test_labels_of_another_lock(
        self, engine: Engine, client: docker.DockerClient, base: str, built: toy.Built
    ) -> None:
        del built
        with toy.image(client, base, toy.files(), {LOCK_LABEL: "0" * 64}) as other:
            verification = verify_image(engine, expected(other), command=toy.COMMAND)
        assert told(verification) == [
            f"label org.opencontainers.image.base.digest: expected {toy.BASE_DIGEST}, found nothing",
            f"label qualify.image.lock-sha256: expected {toy.lock().sha256}, found {'0' * 64}",
        ]

    def test_a_manifest_digest_that_the_engine_does_not_know(
        self, engine: Engine, built: toy.Built, running: Container
    ) -> None:
        digest = f"sha256:{'d' * 64}"
        verification = verify(engine, running, expected(built, manifest_digest=digest))
        assert told(verification) == [f"manifest digest: expected {digest}, found nothing"]


class TestFiles:
    def test_a_patch_that_reached_one_copy_of_two(
        self, engine: Engine, client: docker.DockerClient, base: str, built: toy.Built
    ) -> None:
        del built
        with toy.image(client, base, toy.files() | {KERNEL: toy.OLD}, toy.labels(toy.lock())) as half:
            verification = verify_image(engine, expected(half), command=toy.COMMAND)
        assert told(verification) == [f"{KERNEL}: expected {NEW}, found {OLD}"]
        assert verification.found.probed is not None
        assert verification.found.probed.packages["toy"].files[TWIN].sha256 == NEW

    def test_one_that_was_edited_after_the_start(self, engine: Engine, built: toy.Built, running: Container) -> None:
        raise_for(verify(engine, running, expected(built)))
        write(running, KERNEL, b"VALUE = 'edited'\n")
        verification = verify(engine, running, expected(built))
        edited = toy.sha256(b"VALUE = 'edited'\n")
        with pytest.raises(SetupFailure, match=rf"(?s)is not what was to be measured:.*{KERNEL}: .*found {edited}"):
            raise_for(verification)

    def test_one_that_is_to_be_gone(self, engine: Engine, built: toy.Built, running: Container) -> None:
        write(running, f"{toy.DIST}/toy/gone.py", toy.OLD)
        verification = verify(engine, running, expected(built))
        assert told(verification) == [f"{toy.DIST}/toy/gone.py: expected no file, found {OLD}"]

    def test_every_one_is_named(self, engine: Engine, built: toy.Built, running: Container) -> None:
        for path in (KERNEL, TWIN, f"{toy.OPT}/toy/gone.py"):
            write(running, path, b"# edited\n")
        with pytest.raises(SetupFailure) as caught:
            raise_for(verify(engine, running, expected(built)))
        assert str(caught.value).count("expected ") == 3

    @pytest.mark.parametrize("mode", ["TIMESTAMP", "UNCHECKED_HASH"])
    def test_a_pyc_that_python_runs_instead(
        self, engine: Engine, built: toy.Built, running: Container, mode: str
    ) -> None:
        """The source is the right one, byte for byte, and Python runs the old code."""
        toy.change(running, COMPILE_OLD.format(path=KERNEL, old=toy.OLD, mode=mode))
        assert toy.change(running, IMPORT) == f"old {KERNEL}"
        verification = verify(engine, running, expected(built))
        place = f"{toy.OPT}/toy/__pycache__/kernel.cpython-311.pyc"
        assert told(verification) == [f"{KERNEL}: expected no .pyc that hides it, found {place} holds other code"]

    def test_a_pyc_of_a_source_that_is_gone(self, engine: Engine, built: toy.Built, running: Container) -> None:
        write(running, f"{toy.OPT}/toy/gone.pyc", b"x")
        verification = verify(engine, running, expected(built))
        assert told(verification) == [
            f"{toy.OPT}/toy/gone.py: expected nothing that Python imports in its place, found {toy.OPT}/toy/gone.pyc"
        ]


class TestCopies:
    def test_a_third_one_that_is_imported(self, engine: Engine, built: toy.Built, running: Container) -> None:
        write(running, f"{toy.THIRD}/toy/__init__.py", b"")
        write(running, f"{toy.THIRD}/toy/kernel.py", toy.OLD)
        assert toy.change(running, IMPORT) == f"old {toy.THIRD}/toy/kernel.py"
        verification = verify(engine, running, expected(built))
        found = f"imported from {toy.THIRD}, where 1 of 2 patched files differ"
        assert told(verification) == [f"package toy: expected copies in {BOTH} and no others, found {found}"]

    def test_a_third_one_that_is_only_installed(self, engine: Engine, built: toy.Built, running: Container) -> None:
        write(running, "/usr/local/bin/toy_late.py", b"")
        toy.change(running, "import os; os.makedirs('/opt/late/toy'); open('/opt/late/toy/__init__.py', 'w')")
        write(running, f"{toy.THIRD}/zzz.pth", b"/opt/late\n")
        verification = verify(engine, running, expected(built))
        assert [m.found for m in verification.mismatches] == [
            "an installed copy in /opt/late, where 1 of 2 patched files differ"
        ]

    def test_one_behind_a_link_is_no_other(self, engine: Engine, built: toy.Built, running: Container) -> None:
        toy.change(running, f"import os; os.symlink('{toy.OPT}/toy', '{toy.THIRD}/toy')")
        raise_for(verify(engine, running, expected(built)))

    def test_a_package_that_python_does_not_find(
        self, engine: Engine, client: docker.DockerClient, built: toy.Built
    ) -> None:
        with toy.container(client, built.tag, environment={"PYTHONPATH": ""}) as running:
            toy.change(running, f"import shutil; shutil.rmtree('{toy.DIST}/toy'); shutil.rmtree('{toy.OPT}/toy')")
            mismatches = verify(engine, running, expected(built)).mismatches
        assert [m.what for m in mismatches] == ["package toy", KERNEL, TWIN]
        assert mismatches[0].found == "no such package"


class TestTheContainer:
    def test_one_that_was_started_again(self, engine: Engine, client: docker.DockerClient, built: toy.Built) -> None:
        again = ["sh", "-c", "test -e /once && exec sleep 600; touch /once; exit 1"]
        policy = {"Name": "on-failure", "MaximumRetryCount": 3}
        with toy.container(client, built.tag, entrypoint=again, init=False, restart_policy=policy) as running:
            until(lambda: engine.inspect(str(running.id))["RestartCount"])
            until(lambda: engine.inspect(str(running.id))["State"]["Status"] == "running")
            verification = verify(engine, running, expected(built))
        assert told(verification) == ["restarts of the container: expected 0, found 1"]

    def test_one_that_has_ended(self, engine: Engine, built: toy.Built, running: Container) -> None:
        running.kill()
        verification = verify(engine, running, expected(built))
        assert told(verification) == [
            "state of the container: expected running, found ended",
            f"package toy: expected imported from {BOTH}, found not looked at",
        ]

    def test_a_server_that_another_program_runs(
        self, engine: Engine, client: docker.DockerClient, built: toy.Built
    ) -> None:
        with toy.container(client, built.tag, entrypoint=["sleep", "600"]) as running:
            verification = verify(engine, running, expected(built))
        assert told(verification) == ["program of the server: expected /usr/bin/python3.11, found /usr/bin/sleep"]

    def test_a_command_that_is_no_python(self, engine: Engine, built: toy.Built, running: Container) -> None:
        write(running, "/usr/local/bin/wrapped", b'#!/bin/sh\nexec toy "$@"\n')
        toy.change(running, "import os; os.chmod('/usr/local/bin/wrapped', 0o755)")
        with pytest.raises(SetupFailure, match="wrapped in the image is a script of /bin/sh, no Python"):
            verify(engine, running, expected(built), command=["wrapped"])

    def test_a_command_that_is_not_there(self, engine: Engine, built: toy.Built) -> None:
        with pytest.raises(SetupFailure, match=r"engine.command: vllm cannot be found in the image"):
            verify_image(engine, expected(built), command=["vllm"])


class TestTheServer:
    """The fake server, started by the launcher as in a session, from the console script of the toy."""

    @pytest.fixture
    def server(self, client: docker.DockerClient, built: toy.Built, host: str, tmp_path: Path, model: Path) -> Running:
        reference = push(client, built.id, f"{host}/qualify-test/toy", "pinned")
        bench = Bench(reference, tmp_path)
        argv = ("serve", "{model}", "--host", "{host}", "--port", "{port}", "--served-model-name", "tiny")
        server = bench.start(*argv, command=toy.COMMAND, model=str(model))
        until_answers(f"{server.server.base_url}/health")
        return server

    def test_all_of_it(self, engine: Engine, built: toy.Built, server: Running) -> None:
        how = {"base_url": server.server.base_url, "command": toy.COMMAND, "log_file": server.spec.log_file}
        try:
            right = verify_running(engine, server.id, expected(built), served_model="tiny", **how)  # type: ignore[arg-type]
            wrong = verify_running(engine, server.id, expected(built), served_model="large", **how)  # type: ignore[arg-type]
        finally:
            server.stop()
        raise_for(right)
        assert right.found.served_models == ("tiny",)
        assert right.found.log_version == right.found.api_version != ""
        assert right.found.repo_digests
        assert right.found.probed is not None
        assert right.found.probed.servers == ("/usr/bin/python3.11",)
        assert right.found.probed.path[0] == "/usr/local/bin"
        assert told(wrong) == ["model that /v1/models names: expected large, found tiny"]
