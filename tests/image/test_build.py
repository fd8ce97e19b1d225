"""A lock becomes an image, the same with both builders; only what the lock says differs from the base."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from harness.image.names import BASE_DIGEST, BASE_ID, BASE_NAME, CONTEXT, LOCK
from harness.image.record import BuiltImage
from harness.stack.lock import Outcome
from tests.image.bench import COPIES, RUN, Images, installed, stack_bench
from tests.stack.bench import lines, lock
from tests.stack.origin import link, program

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker-images")]

BUILDERS = ("classic", "buildx")
OLD = {"vllm/a.py": lines(), "vllm/b.py": lines(), "vllm/gone/only.py": "only = 1\n", "vllm/untouched.py": "u = 1\n"}
STALE = {
    f"{COPIES[0]}/vllm/__pycache__/a.cpython-311.pyc": b"stale",
    f"{COPIES[0]}/vllm/__pycache__/a.cpython-312.opt-1.pyc": b"stale",
    f"{COPIES[1]}/vllm/a.pyc": b"stale",
    f"{COPIES[1]}/vllm/gone/__pycache__/only.cpython-311.pyc": b"stale",
}
KEPT = {f"{COPIES[0]}/vllm/__pycache__/untouched.cpython-311.pyc": b"its own"}
AS_BASE = ("User", "Env", "Entrypoint", "Cmd", "WorkingDir", "Volumes", "ExposedPorts", "Healthcheck", "StopSignal")


@dataclass(frozen=True)
class Case:
    """A lock, its base image, and what each builder made of it."""

    outcome: Outcome
    reference: str
    built: dict[str, BuiltImage]
    logs: dict[str, bytes]


@pytest.fixture(scope="module")
def case(images: Images, buildkit_path: str, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Both builders, one after the other; the first image is removed in between, or it would be found again."""
    root = tmp_path_factory.mktemp("case")
    reference = images.make(
        {**installed(OLD), **STALE, **KEPT},
        f"RUN chown -R 1000:1000 {COPIES[1]} && chmod 664 {COPIES[1]}/vllm/a.py",
        "USER 1000:1000",
        'CMD ["--port", "8000"]',
        "EXPOSE 8000",
        "STOPSIGNAL SIGINT",
    )
    bench = stack_bench(root, reference)
    bench.base = bench.origin.branch("main", bench.origin.commit(dict(OLD), bench.base))
    head = bench.pull(
        1,
        {
            "vllm/a.py": lines(l5="five = 5"),
            "vllm/b.py": link("a.py"),
            "vllm/new/n.py": program("n = 1\n"),
            "vllm/gone/only.py": None,
            "tests/test_a.py": "new\n",
        },
    )
    outcome = lock(bench.stack(bench.head(1, head)), output=root / "lock")
    built, logs = {}, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", buildkit_path)
        for builder in BUILDERS:
            log = root / f"{builder}.log"
            built[builder] = images.build(outcome.folder, log, builder)
            logs[builder] = log.read_bytes()
            images.client.api.tag(built[builder].image_id, f"qualify-test/{RUN}", builder)
            tag = built[builder].tag
            assert tag is not None
            images.client.images.remove(tag)
    return Case(outcome, reference, built, logs)


@pytest.fixture(params=BUILDERS)
def image(case: Case, request: pytest.FixtureRequest) -> BuiltImage:
    return case.built[request.param]


def test_tag_image_and_manifest_are_three_things(case: Case, image: BuiltImage, images: Images) -> None:
    described = images.inspect(image.image_id)
    assert image.image_id == described["Id"]
    assert image.base_digest == case.reference.partition("@")[2]
    assert image.base_image_id == images.inspect(case.reference)["Id"]
    assert image.tag is not None
    assert image.tag.startswith(f"qualify/stack:{case.outcome.lock.sha256[:16]}-")
    assert len({image.tag, image.image_id, image.base_digest, image.base_image_id}) == 4
    assert (image.reused, image.lock_sha256) == (False, case.outcome.lock.sha256)


@pytest.mark.parametrize("builder", BUILDERS)
def test_the_log_is_hashed_as_it_was_written(case: Case, builder: str) -> None:
    log = case.logs[builder]
    assert case.built[builder].builder == builder
    assert case.built[builder].log_sha256 == hashlib.sha256(log).hexdigest()
    for place in COPIES:
        assert f"qualify: wrote {place}/vllm/a.py: sha256 ".encode() in log
    assert b"qualify: 8 copies of 4 files are as the lock says" in log


def test_every_copy_holds_the_composed_bytes(case: Case, image: BuiltImage, images: Images) -> None:
    code = """
import hashlib, json, os, sys
found = {}
for place in sys.argv[1:]:
    if os.path.islink(place):
        found[place] = os.readlink(place)
    elif os.path.exists(place):
        found[place] = hashlib.sha256(open(place, "rb").read()).hexdigest()
    else:
        found[place] = None
print(json.dumps(found))
"""
    files = case.outcome.lock.components[0].installed
    places = {place: file for file in files for place in file.copies}
    assert len(places) == 8
    found = images.run(image.image_id, code, *places)
    assert found == {
        place: "a.py" if file.mode_after == "120000" else file.sha256_after for place, file in places.items()
    }


def test_nothing_else_of_the_image_changes(case: Case, image: BuiltImage, images: Images) -> None:
    before, after = images.members(case.reference), images.members(image.image_id)
    gone = {path for path in before if path not in after}
    new = {path for path in after if path not in before}
    changed = {path for path in before.keys() & after.keys() if before[path] != after[path]}
    roots = [copy.lstrip("/") for copy in COPIES]
    assert gone == {
        *(path.lstrip("/") for path in STALE),
        *(f"{root}/vllm/gone{end}" for root in roots for end in ("", "/only.py")),
        f"{roots[1]}/vllm/gone/__pycache__",
    }
    assert new == {f"{root}/vllm/new{end}" for root in roots for end in ("", "/n.py")}
    assert changed == {f"{root}/vllm/{name}" for root in roots for name in ("a.py", "b.py")}


def test_owner_and_permissions_are_those_of_the_old_file_or_the_folder(image: BuiltImage, images: Images) -> None:
    members = images.members(image.image_id)

    def mode_and_owner(path: str) -> tuple[int, int, int]:
        _, mode, uid, gid, *_ = members[path.lstrip("/")]
        return mode & 0o7777, uid, gid

    assert mode_and_owner(f"{COPIES[0]}/vllm/a.py") == (0o644, 0, 0)
    assert mode_and_owner(f"{COPIES[1]}/vllm/a.py") == (0o664, 1000, 1000)
    assert mode_and_owner(f"{COPIES[1]}/vllm/new") == (0o755, 1000, 1000)
    assert mode_and_owner(f"{COPIES[1]}/vllm/new/n.py") == (0o755, 1000, 1000)


def test_user_entrypoint_and_the_like_stay(case: Case, image: BuiltImage, images: Images) -> None:
    base, built = (images.inspect(name)["Config"] for name in (case.reference, image.image_id))
    assert built["User"] == "1000:1000"
    assert {key: built.get(key) for key in AS_BASE} == {key: base.get(key) for key in AS_BASE}


def test_two_layers_lie_on_the_base_s_own(case: Case, image: BuiltImage, images: Images) -> None:
    """One brings the payload in, the other one lays the files over the base and takes the payload away."""
    base, built = (images.inspect(name)["RootFS"]["Layers"] for name in (case.reference, image.image_id))
    assert built[: len(base)] == base
    assert len(built) - len(base) == 2


def test_the_labels_say_what_it_was_made_from(case: Case, image: BuiltImage, images: Images) -> None:
    labels = images.inspect(image.image_id)["Config"]["Labels"]
    component = case.outcome.lock.components[0]
    assert image.labels == labels
    assert labels["org.opencontainers.image.version"] == "1.2.3", "the base's own"
    assert labels[BASE_NAME] == case.reference.partition("@")[0]
    assert labels[BASE_DIGEST] == image.base_digest
    assert labels[BASE_ID] == image.base_image_id
    assert labels[LOCK] == case.outcome.lock.sha256
    assert labels[CONTEXT] == image.context_sha256
    assert labels["qualify.image.stack"] == "stack"
    assert labels["qualify.image.build-mode"] == "overlay"
    assert labels["qualify.image.vllm.tree"] == component.tree
    assert labels["qualify.image.vllm.patch-sha256"] == component.patch_sha256
    assert labels["qualify.image.vllm.heads"] == f"1:{component.heads[0].head}"


def test_both_builders_were_given_the_same_and_made_the_same(case: Case, images: Images) -> None:
    classic, buildx = (case.built[builder] for builder in BUILDERS)
    assert (classic.tag, classic.context_sha256, classic.labels) == (buildx.tag, buildx.context_sha256, buildx.labels)
    one, other = (images.members(image.image_id) for image in (classic, buildx))
    assert {p: m[:-1] for p, m in one.items()} == {p: m[:-1] for p, m in other.items()}, "times apart"


def test_a_container_has_no_label_of_ours_that_says_whose_it_is(image: BuiltImage) -> None:
    assert all(not name.startswith("qualify.") or name.startswith("qualify.image.") for name in image.labels)


@pytest.fixture(scope="module")
def first(case: Case, images: Images, tmp_path_factory: pytest.TempPathFactory) -> BuiltImage:
    return images.build(case.outcome.folder, tmp_path_factory.mktemp("first") / "build.log")


class TestAgain:
    """What an earlier build left is used, if it is what it is called."""

    def test_an_unchanged_lock_builds_nothing(
        self, case: Case, first: BuiltImage, images: Images, tmp_path: Path
    ) -> None:
        told: list[str] = []
        again = images.build(case.outcome.folder, tmp_path / "build.log", told=told)
        assert again == first.model_copy(update={"reused": True, "builder": None, "log_sha256": None})
        assert (told, (tmp_path / "build.log").exists()) == ([], False)

    def test_a_tag_that_was_moved_is_not_believed(
        self, case: Case, first: BuiltImage, images: Images, client: docker.DockerClient, tmp_path: Path
    ) -> None:
        """The base under the patched image's name would be measured as the patch."""
        assert first.tag is not None
        name, _, tag = first.tag.partition(":")
        client.api.tag(case.reference, name, tag)
        told: list[str] = []
        again = images.build(case.outcome.folder, tmp_path / "build.log", told=told)
        assert not again.reused
        assert again.image_id != again.base_image_id
        assert told[0].startswith(f"{first.tag} is another image and is built again: label ")
        assert images.inspect(first.tag)["Id"] == again.image_id

    def test_right_labels_on_another_base_are_not_believed(
        self, case: Case, first: BuiltImage, images: Images, client: docker.DockerClient, tmp_path: Path
    ) -> None:
        labels = "".join(f'LABEL "{name}"="{value}"\n' for name, value in first.labels.items())
        forged = images.make({"/opt/other": "x"}, labels, "USER 1000:1000")
        assert first.tag is not None
        name, _, tag = first.tag.partition(":")
        client.api.tag(forged, name, tag)
        told: list[str] = []
        images.build(case.outcome.folder, tmp_path / "build.log", told=told)
        assert "its lower layers are not those of the base image" in told[0]


def test_a_lock_that_changes_nothing_installed_runs_the_base_itself(images: Images, case: Case, tmp_path: Path) -> None:
    bench = stack_bench(tmp_path, case.reference)
    head = bench.pull(1, {"tests/test_a.py": "new\n"})
    outcome = lock(bench.stack(bench.head(1, head)), output=tmp_path / "lock")
    built = images.build(outcome.folder, tmp_path / "build.log")
    base = images.inspect(case.reference)["Id"]
    assert (built.tag, built.image_id, built.base_image_id) == (None, base, base)
    assert (built.builder, built.reused, built.log_sha256) == (None, False, None)
    assert not (tmp_path / "build.log").exists()
