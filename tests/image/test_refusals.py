"""A base image that is not what the lock says ends the build, and the message names file, copy, expected and found."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from harness.errors import SetupFailure
from harness.stack.lock import Outcome
from tests.containers.registry import push, registry
from tests.image.bench import COPIES, Images, installed, stack_bench
from tests.stack.bench import Bench, lines, lock, sha256

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker-images")]

OLD = {"vllm/a.py": lines(), "vllm/b.py": lines()}
HASH = sha256(lines().encode())
OTHER = "other\n"


def locked(bench: Bench) -> Outcome:
    """A head that changes one file, deletes one and creates one."""
    head = bench.pull(1, {"vllm/a.py": lines(l5="five = 5"), "vllm/b.py": None, "vllm/n.py": "n = 1\n"})
    return lock(bench.stack(bench.head(1, head)), output=bench.root / "lock")


def refusal(images: Images, folder: Path, builder: str = "classic") -> str:
    with pytest.raises(SetupFailure) as caught:
        images.build(folder, folder / "build.log", builder)
    return str(caught.value)


@pytest.fixture(scope="module")
def good(images: Images) -> str:
    """A base image as the lock wants it."""
    return images.make(installed(OLD))


@pytest.mark.parametrize("builder", ["classic", "buildx"])
def test_every_copy_that_is_another_one_is_named_before_anything_is_written(
    images: Images, tmp_path: Path, buildkit_path: str, monkeypatch: pytest.MonkeyPatch, builder: str
) -> None:
    """One copy of two has other bytes, another lacks the file, a third has it already, a fourth is a program."""
    monkeypatch.setenv("PATH", buildkit_path)
    one, two = COPIES
    reference = images.make(
        {
            f"{one}/vllm/a.py": lines(),
            f"{two}/vllm/a.py": OTHER,
            f"{one}/vllm/b.py": lines(),
            f"{two}/vllm/n.py": "",
        },
        f"RUN chmod 755 {one}/vllm/b.py",
    )
    outcome = locked(stack_bench(tmp_path, reference))
    told = refusal(images, outcome.folder, builder)
    assert told.splitlines() == [
        f"image of stack on {reference}",
        "  4 of 6 copies in the base image are not as the lock says",
        (
            f"  vllm: vllm/a.py: {two}/vllm/a.py: expected sha256 {HASH} with mode 100644, "
            f"found sha256 {sha256(OTHER.encode())} with mode 100644"
        ),
        (
            f"  vllm: vllm/b.py: {one}/vllm/b.py: expected sha256 {HASH} with mode 100644, "
            f"found sha256 {HASH} with mode 100755"
        ),
        f"  vllm: vllm/b.py: {two}/vllm/b.py: expected sha256 {HASH} with mode 100644, found no file",
        f"  vllm: vllm/n.py: {two}/vllm/n.py: expected no file, found sha256 {sha256(b'')} with mode 100644",
        f"The build log is {outcome.folder / 'build.log'}",
    ]
    assert b"4 of 6 copies" in (outcome.folder / "build.log").read_bytes()


def test_a_base_that_was_patched_already_is_said_to_be(images: Images, tmp_path: Path) -> None:
    patched = {"vllm/a.py": lines(l5="five = 5"), "vllm/b.py": lines()}
    outcome = locked(stack_bench(tmp_path, images.make(installed(patched))))
    assert refusal(images, outcome.folder).count("; the patched file is there already") == 2


@pytest.mark.parametrize("builder", ["classic", "buildx"])
def test_an_image_without_python_is_told_so(
    images: Images, tmp_path: Path, buildkit_path: str, monkeypatch: pytest.MonkeyPatch, builder: str
) -> None:
    monkeypatch.setenv("PATH", buildkit_path)
    reference = images.make(installed(OLD), base="scratch")
    told = refusal(images, locked(stack_bench(tmp_path, reference)).folder, builder)
    assert "  the base image has no python3 on its PATH, which checks and writes the files inside it\n" in told


def test_a_failed_build_leaves_no_image_behind(
    images: Images, client: docker.DockerClient, tmp_path: Path, good: str
) -> None:
    """The classic builder keeps an image per step."""
    bench = stack_bench(tmp_path, good)
    head = bench.pull(1, {"vllm/a.py": lines(l5="five = 5")})
    outcome = lock(bench.stack(bench.head(1, head), install=[*COPIES, "/nowhere"]), output=tmp_path / "lock")
    base = images.inspect(good)["Id"]

    def children() -> set[str]:
        known = {image["Id"]: image["ParentId"] for image in client.api.images(all=True)}
        return {image for image, parent in known.items() if parent == base}

    before = children()
    assert "/nowhere/vllm/a.py: expected sha256" in refusal(images, outcome.folder)
    assert children() == before


# --- the base image --------------------------------------------------------------------------------


def test_a_base_that_is_not_here_is_fetched_by_its_digest(
    images: Images, client: docker.DockerClient, tmp_path: Path
) -> None:
    reference = images.make({**installed(OLD), "/opt/fetched": ""})
    name = reference.partition("@")[0]
    client.images.remove(f"{name}:latest")
    assert not client.images.list(name)
    outcome = locked(stack_bench(tmp_path, reference))
    told: list[str] = []
    built = images.build(outcome.folder, tmp_path / "build.log", told=told)
    images.made.append(reference)
    assert told == [f"fetching {reference}", f"building {built.tag}"]
    assert built.base_digest == reference.partition("@")[2]
    assert reference in images.inspect(built.base_image_id)["RepoDigests"]


def test_a_digest_that_the_name_does_not_have_is_refused(images: Images, tmp_path: Path, good: str) -> None:
    """The name is right, and an image of that name is here: it is the digest that decides."""
    wrong = f"{good.partition('@')[0]}@sha256:{'0' * 64}"
    told = refusal(images, locked(stack_bench(tmp_path, wrong)).folder)
    assert told.startswith(f"base image {wrong} is not on this host and cannot be fetched: manifest")
    assert "check name and digest" in told


def test_an_image_id_in_place_of_a_manifest_digest_is_refused(images: Images, tmp_path: Path, good: str) -> None:
    image_id = images.inspect(good)["Id"]
    told = refusal(images, locked(stack_bench(tmp_path, f"{good.partition('@')[0]}@{image_id}")).folder)
    assert "cannot be fetched" in told


def test_a_copy_in_a_volume_is_refused(images: Images, tmp_path: Path) -> None:
    """The classic builder throws away what is written there, and a server sees the volume."""
    reference = images.make(installed(OLD), f"VOLUME {COPIES[1]}")
    told = refusal(images, locked(stack_bench(tmp_path, reference)).folder)
    assert f"  vllm: {COPIES[1]}/vllm/a.py lies in the volume {COPIES[1]}\n" in told
    assert COPIES[0] not in told


def test_a_base_with_triggers_is_refused(images: Images, tmp_path: Path) -> None:
    reference = images.make(installed(OLD), "ONBUILD RUN touch /opt/more")
    told = refusal(images, locked(stack_bench(tmp_path, reference)).folder)
    assert told == f"base image {reference} has ONBUILD triggers, which would run: RUN touch /opt/more"


@pytest.mark.parametrize("builder", ["classic", "buildx"])
def test_a_base_whose_registry_is_gone_is_used_from_here(
    images: Images,
    client: docker.DockerClient,
    good: str,
    tmp_path: Path,
    buildkit_path: str,
    monkeypatch: pytest.MonkeyPatch,
    builder: str,
) -> None:
    """As on a machine without network, where somebody pulled it once: nobody is asked for it again."""
    monkeypatch.setenv("PATH", buildkit_path)
    folder = tmp_path / "registry"
    folder.mkdir()
    with registry(folder) as host:
        reference = push(client, images.inspect(good)["Id"], f"{host}/qualify-test/gone", "latest")
    images.named.append(f"{host}/qualify-test/gone:latest")
    told: list[str] = []
    built = images.build(locked(stack_bench(tmp_path, reference)).folder, tmp_path / "build.log", builder, told)
    assert (built.builder, told) == (builder, [f"building {built.tag}"])


# --- the lock --------------------------------------------------------------------------------------


def test_an_edited_file_of_the_lock_is_refused(images: Images, tmp_path: Path, good: str) -> None:
    outcome = locked(stack_bench(tmp_path, good))
    edited = outcome.folder / "vllm" / "composed.tar"
    edited.write_bytes(edited.read_bytes().replace(b"five = 5", b"five = 6"))
    with pytest.raises(Exception, match=r"composed.tar: SHA-256 is .*, the lock says") as caught:
        images.build(outcome.folder, tmp_path / "build.log")
    assert type(caught.value).__name__ == "ConfigError"


def test_a_log_that_cannot_be_written_is_no_build(images: Images, tmp_path: Path, good: str) -> None:
    outcome = locked(stack_bench(tmp_path, good))
    with pytest.raises(SetupFailure, match=r"the build log /dev/full cannot be written: No space left on device"):
        images.build(outcome.folder, Path("/dev/full"))
    again = images.build(outcome.folder, tmp_path / "build.log")
    images.made.append(again.image_id)


def test_buildx_by_name_where_there_is_none(
    images: Images, tmp_path: Path, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = locked(stack_bench(tmp_path, good))
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    assert "--builder names buildx, and `docker buildx version` fails" in refusal(images, outcome.folder, "buildx")
