"""`qualify image`, as a user types it."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from harness.cli import main
from harness.image.identity import expected_image
from harness.image.names import LOCK
from harness.launch.docker.engine import Engine
from tests.containers.bench import Bench
from tests.containers.waiting import until_answers
from tests.image import toy
from tests.image.test_verify import SERVE

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker-images")]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of locks with the toy's in it."""
    monkeypatch.setenv("QUALIFY_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("QUALIFY_RESULTS", str(tmp_path / "results"))
    toy.write_lock(tmp_path / "locks" / "toy", toy.lock())
    toy.write_lock(tmp_path / "locks" / "small", toy.small_lock())
    return tmp_path / "locks"


class TestVerify:
    def test_the_image_of_a_stack_is_found_by_its_label(
        self, locks: Path, built_toy: toy.Built, capsys: Capture
    ) -> None:
        for name in ("toy", str(locks / "toy")):
            assert main(["image", "verify", name, "--engine-command", "toy"]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert f"image id           {built_toy.id}" in lines
            assert f"package toy        {toy.OPT}/toy/__init__.py" in lines
            assert lines[-1] == "outcome            as expected"

    def test_a_mismatch_is_exit_code_3(
        self, locks: Path, client: docker.DockerClient, base: str, capsys: Capture
    ) -> None:
        del locks
        wrong = toy.files() | {f"{toy.DIST}/toy/kernel.py": toy.OLD}
        with toy.image(client, base, wrong, {LOCK: toy.lock().sha256}) as image:
            assert main(["image", "verify", "toy", "--image", image.tag, "--engine-command", "toy"]) == 3
        out = capsys.readouterr().out
        assert f"MISMATCH           {toy.DIST}/toy/kernel.py: expected {toy.sha256(toy.NEW)}, found " in out
        assert out.endswith("outcome            2 mismatches\n")

    def test_a_container_is_asked_by_its_own_command(
        self, locks: Path, engine: Engine, toy_servers: Bench, toy_model: Path, capsys: Capture
    ) -> None:
        del locks
        server = toy_servers.start(*SERVE, command=toy.COMMAND, model=str(toy_model))
        until_answers(f"{server.server.base_url}/health")
        begin = ["image", "verify", "toy", "--container", server.id, "--served-model"]
        assert main([*begin, "tiny"]) == 0
        assert "serves             tiny" in capsys.readouterr().out
        assert main([*begin, "large"]) == 3
        assert engine.inspect(server.id)["State"]["Running"]

    def test_nothing_is_left_of_the_container_that_was_made_to_look(
        self, locks: Path, client: docker.DockerClient, built_toy: toy.Built
    ) -> None:
        del locks
        assert main(["image", "verify", "toy", "--image", built_toy.id, "--engine-command", "toy"]) == 0
        assert client.containers.list(all=True, filters={"ancestor": built_toy.id}) == []

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (["toy", "--image", "no/such:image"], 3, "no image no/such:image on this host"),
            (["toy", "--container", "0123456789ab"], 3, "container 0123456789ab: No such container"),
            (["toy"], 3, "engine.command: vllm cannot be found in the image"),
            (["nosuch"], 2, "`qualify lock nosuch` writes it"),
            (["another"], 3, "no image on this host was built from the lock of another"),
        ],
        ids=["image", "container", "command", "lock", "not built"],
    )
    def test_what_is_missing_is_named(
        self, locks: Path, built_toy: toy.Built, capsys: Capture, arguments: list[str], code: int, told: str
    ) -> None:
        del built_toy
        another = toy.lock().model_copy(update={"stack": "another"}).sealed()
        toy.write_lock(locks / "another", another)
        assert main(["image", "verify", *arguments]) == code
        assert told in capsys.readouterr().err


class TestArchive:
    def test_there_and_back(self, locks: Path, small: toy.Built, capsys: Capture) -> None:
        assert main(["image", "archive", "small"]) == 0
        path = Path(capsys.readouterr().out.partition(": ")[0])
        assert path == locks.parent / "results" / "images" / f"{small.id[7:23]}.tar.zst"
        assert main(["image", "load", str(path)]) == 0
        assert capsys.readouterr().out == f"image {small.id}\n"
        path.write_bytes(path.read_bytes()[:-1])
        assert main(["image", "load", str(path)]) == 3
        assert "it was cut off" in capsys.readouterr().err

    def test_any_image_by_its_name(self, tmp_path: Path, small: toy.Built) -> None:
        assert main(["image", "archive", small.tag, "--output", str(tmp_path / "x.tar.zst")]) == 0


def test_a_lock_that_changes_nothing_is_its_base_itself() -> None:
    """No image is built from it, so no label says so: what counts is the base's own digest."""
    lock = toy.lock()
    [component] = lock.components
    same = lock.model_copy(update={"components": (component.model_copy(update={"files": ()}),)})
    expected = expected_image(same, "sha256:1")
    assert (expected.manifest_digest, expected.base_digest) == (toy.BASE_DIGEST, None)
    assert (expected.labels, expected.packages) == ({}, {})
