"""The whole way of a pull request: pinned base, heads, composed image, real vLLM in containers, verdict, report."""

from __future__ import annotations

import json

import docker
import pytest

from harness.judge.case import read_case
from harness.stack.reading import read_lock
from harness.stack.record import StackLock
from harness.words import Arm, ExitCode, Word
from tests.containers.registry import push
from tests.containers.vllm import SITE, VENV, vllm_image
from tests.stack.origin import Origin

from .sessions import Finished, run

PATCHED = "vllm/v1/core/kv_cache_utils.py"
"""Decides how many KV blocks there are: what a patch changes here shows in the first figure of a report."""
INERT, COSTLY = 31, 32
"""A pull request of both arms that changes nothing, and the candidate's, which takes every tenth KV block."""

PROFILE = """
name = "cpu-container"
description = "real vLLM for the CPU in a container"
launcher = "docker"

[image]
reference = "{reference}"
shm_size_gib = 1

[engine]
command = ["vllm"]

[model]
served_name = "forged"
forge = {{ seed = 1 }}

[serve.flags]
max-model-len = 33_280
max-num-seqs = 8
enforce-eager = true

[serve.env]
HF_HUB_OFFLINE = "1"
VLLM_CPU_KVCACHE_SPACE = "1"
VLLM_CPU_OMP_THREADS_BIND = "nobind"
OMP_NUM_THREADS = "1"

[modes.mtp1]
draft_tokens = 1
flags = {{ speculative-config = {{ method = "mtp", num_speculative_tokens = 1 }} }}

[plan]
modes = ["mtp1"]
warmups = ["engine"]
caches = ["cold"]

[course]
kinds = []
identity_prompts = 2
identity_logprobs = 0   # the first such request compiles, and the image has no compiler
contexts = [ {{ prompt_tokens = 2048, prefill_passes = 1, decode_passes = 1 }} ]

[timeouts]
health_s = 400.0
"""

STACK = """
name = "{name}"
description = "{description}"

[base]
reference = "{reference}"
release = "test-r1"

[[components]]
name = "vllm"
repository = "{repository}"
base_commit = "{base}"
packages = ["vllm"]
install = ["{site}"]
heads = [
{heads}
]
"""

pytestmark = [pytest.mark.docker, pytest.mark.vllm, pytest.mark.xdist_group("docker")]


@pytest.fixture(scope="module")
def pinned(client: docker.DockerClient, host: str) -> str:
    """The image with vLLM inside, under a digest of a real registry."""
    return push(client, vllm_image(client), f"{host}/qualify-test/vllm-cpu", "pinned")


@pytest.fixture(scope="module")
def done(pinned: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Control with the inert head, candidate with the costly one as well."""
    folder = tmp_path_factory.mktemp("patched")
    (folder / "profile.toml").write_text(PROFILE.format(reference=pinned), "utf-8")
    origin = Origin(folder / "vllm.git")
    installed = (VENV / "lib/python3.11/site-packages" / PATCHED).read_text("utf-8")
    base = origin.branch("main", origin.commit({PATCHED: installed, "tests/test_kv.py": "def test(): pass\n"}))
    inert = origin.pull(INERT, origin.commit({PATCHED: f"{installed}\n# inert\n"}, base))
    costly_text = installed.replace("    return num_blocks\n", "    return num_blocks * 9 // 10\n", 1)
    assert costly_text != installed
    costly = origin.pull(COSTLY, origin.commit({PATCHED: costly_text}, base))
    for name, heads in (("control", {INERT: inert}), ("candidate", {INERT: inert, COSTLY: costly})):
        text = STACK.format(
            name=name,
            description="a stack of tests",
            reference=pinned,
            repository=origin.path,
            base=base,
            site=SITE,
            heads=",\n".join(f'  {{ pr = {pr}, head = "{head}" }}' for pr, head in heads.items()),
        )
        (folder / f"{name}.toml").write_text(text, "utf-8")
    stacks = ("--control", str(folder / "control.toml"), "--candidate", str(folder / "candidate.toml"))
    return run(folder / "results", "--profile", str(folder / "profile.toml"), *stacks, timeout_s=1500)


def lock(done: Finished, arm: Arm) -> StackLock:
    return read_lock(done.bundle.stack_lock_dir(arm))


def test_the_patch_shows_in_kv_tokens_and_decides_the_verdict(done: Finished) -> None:
    row = done.row("KV tokens")
    assert row.control is not None
    assert row.candidate is not None
    control, candidate = (float(x.replace(",", "")) for x in (row.control, row.candidate))
    assert candidate == pytest.approx(0.9 * control, rel=0.001)
    assert row.word is Word.FAIL
    assert done.code == ExitCode.FAIL, done.out


def test_nothing_else_differs(done: Finished) -> None:
    assert {r.word for r in done.rows("served to the end")} == {Word.PASS}
    assert {r.word for r in done.rows("known answers")} == {Word.PASS}
    assert {r.word for r in done.rows("identity, candidate vs control")} == {Word.PASS}


def test_both_arms_ran_what_their_locks_say(done: Finished) -> None:
    assert done.row("image as locked").word is Word.PASS
    images = {arm: done.bundle.lock(arm).image for arm in Arm}
    ids = {image.image_id for image in images.values() if image is not None}
    assert len(ids) == 2
    for launch in read_case(done.bundle).launches.values():
        assert launch.record is not None
        assert launch.record.container is not None
        image = images[launch.record.launch.arm]
        assert image is not None
        assert launch.record.container.image_id == image.image_id


def test_the_bundle_keeps_locks_patches_and_the_builds_log(done: Finished) -> None:
    assert [h.pr for h in lock(done, Arm.CONTROL).components[0].heads] == [INERT]
    assert [h.pr for h in lock(done, Arm.CANDIDATE).components[0].heads] == [INERT, COSTLY]
    patch = (done.bundle.stack_lock_dir(Arm.CANDIDATE) / "vllm" / "integration.patch").read_text("utf-8")
    assert "+    return num_blocks * 9 // 10" in patch
    manifest = (done.bundle.root / "SHA256SUMS").read_text("utf-8")
    assert "locks/candidate/build.log" in manifest
    assert "locks/candidate/lock.json" in manifest


def test_the_report_shows_heads_trees_digests_and_the_difference(done: Finished, pinned: str) -> None:
    comment = next(done.bundle.report_dir.glob("*.md")).read_text("utf-8")
    page = (done.bundle.report_dir / "report.html").read_text("utf-8")
    component = lock(done, Arm.CANDIDATE).components[0]
    image = done.bundle.lock(Arm.CANDIDATE).image
    assert image is not None
    digest = pinned.partition("@")[2]
    for told in (component.tree, component.heads[1].head, image.image_id, digest, image.lock_sha256):
        assert told is not None
        assert told in comment
        assert told in page
    assert f"#{COSTLY}: none in the control, {component.heads[1].head} in the candidate" in comment


def test_a_second_session_builds_nothing(done: Finished) -> None:
    """Both images are there already; only their build is asked for, not another run."""
    candidate = done.results.parent / "candidate.toml"
    again = run(done.results, str(candidate), program=("-m", "harness.cli", "build"))
    assert again.code == ExitCode.PASS, again.out
    image = done.bundle.lock(Arm.CANDIDATE).image
    assert image is not None
    assert image.image_id in again.out
    assert "reused" in again.out


def test_what_was_found_inside_is_kept(done: Finished) -> None:
    for launch in read_case(done.bundle).launches.values():
        found = json.loads(launch.folder.image_file.read_bytes())
        assert found["mismatches"] == []
        assert f"{SITE}/{PATCHED}" in json.dumps(found)
