"""The case that this harness was written for, in miniature: two stacks whose difference is one pull request."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from harness.config.load import load_stack
from harness.paths import PROJECT
from harness.stack.lock import Outcome
from tests.stack.bench import REFERENCE, Bench, inline, lines, lock, refusal
from tests.stack.origin import Origin

CONTROL = "gg-v20-r31-258-270"
CANDIDATE = "gg-v20-r31-pr271"
KERNELS = (
    "UnifiedPrefillMGKernel",
    "_build_prefill_chunk_metadata_kernel",
    "_map_global_topk_to_gathered_ckv_kernel",
)


@pytest.fixture
def locks(bench: Bench) -> tuple[Outcome, Outcome]:
    """Control and candidate, with a release patch, two components, and a short head."""
    release = bench.origin.commit({"vllm/r31.py": "r31 = 1\n"}, bench.base)
    patch = bench.patch_file(bench.origin.patch(bench.base, release), "release.patch")
    pulls = {n: bench.pull(n, {"vllm/a.py": lines(**{f"l{n - 255}": f"pr = {n}"})}) for n in (258, 270)}
    pulls[271] = bench.pull(271, {"vllm/prewarm.py": "prewarm = 1\n", "tests/test_prewarm.py": "test = 1\n"})
    b12x = Origin(bench.root / "forge" / "b12x.git")
    b12x_base = b12x.branch("main", b12x.commit({"b12x/moe.py": lines()}))
    pulls[130] = b12x.pull(130, b12x.commit({"b12x/moe.py": lines(l4="four = 4")}, b12x_base))
    control = f"""
name = "control"
description = "r31 in miniature"
base = {{ reference = "{REFERENCE}", release = "r31" }}

[[components]]
name = "vllm"
repository = "{bench.origin.path}"
base_commit = "{bench.base}"
packages = ["vllm"]
install = ["/opt/vllm", "/venv/site-packages"]
integration = {inline({**patch, "tree": bench.origin.tree(release)})}
heads = [{bench.head(258, pulls[258])}, {bench.head(270, pulls[270][:12])}]

[[components]]
name = "b12x"
repository = "{b12x.path}"
base_commit = "{b12x_base}"
packages = ["b12x"]
install = ["/venv/site-packages"]
heads = [{bench.head(130, pulls[130])}]
"""
    candidate = f"""
name = "candidate"
description = "the control and #271"
extends = "control"
claims = [{{ type = "late_jit_removed", kernels = {list(KERNELS)} }}]

[[components]]
name = "vllm"
heads = [{bench.head(271, pulls[271])}]
"""
    return lock(bench.write(control, "control")), lock(bench.write(candidate, "candidate"))


def all_heads(outcome: Outcome) -> list[tuple[str, int, str | None]]:
    return [(c.name, h.pr, h.head) for c in outcome.lock.components for h in c.heads]


def test_the_locks_differ_by_exactly_one_head(locks: tuple[Outcome, Outcome]) -> None:
    control, candidate = locks
    more = [head for head in all_heads(candidate) if head not in all_heads(control)]
    assert [(name, pr) for name, pr, _ in more] == [("vllm", 271)]
    assert [head for head in all_heads(candidate) if head not in more] == all_heads(control)
    assert control.lock.base == candidate.lock.base


def test_the_candidate_s_trees_are_the_control_s_and_that_one_change(locks: tuple[Outcome, Outcome]) -> None:
    (vllm, b12x), (candidate_vllm, candidate_b12x) = (outcome.lock.components for outcome in locks)
    assert candidate_b12x == b12x
    assert candidate_vllm.heads[1].tree == vllm.tree
    more = {f.path for f in candidate_vllm.files} - {f.path for f in vllm.files}
    assert more == {"vllm/prewarm.py", "tests/test_prewarm.py"}
    assert [f.path for f in candidate_vllm.not_installed] == ["tests/test_prewarm.py"]


def test_only_the_candidate_claims_something(locks: tuple[Outcome, Outcome]) -> None:
    control, candidate = locks
    assert control.lock.claims == ()
    assert [claim.model_dump() for claim in candidate.lock.claims] == [{"type": "late_jit_removed", "kernels": KERNELS}]


def test_leaving_the_candidate_s_head_out_gives_the_control_s_trees(
    bench: Bench, locks: tuple[Outcome, Outcome]
) -> None:
    without = lock(bench.stacks / "candidate.toml", without=("271",))
    assert [c.tree for c in without.lock.components] == [c.tree for c in locks[0].lock.components]
    patches = [(o.folder / "vllm" / "integration.patch").read_bytes() for o in (without, locks[0])]
    assert patches[0] == patches[1]


# --- the real stacks -----------------------------------------------------------------------------------


def shipped(name: str) -> dict[str, dict[int, str]]:
    return {c.name: {h.pr: h.head for h in c.heads} for c in load_stack(name).model.components}


def test_the_shipped_stacks_differ_by_exactly_one_pull_request() -> None:
    control, candidate = shipped(CONTROL), shipped(CANDIDATE)
    assert candidate["vllm"].items() - control["vllm"].items() == {(271, "310c3ac9718f8d28a6d2c6e009ca4376e54f4457")}
    assert list(candidate["vllm"]) == [258, 270, 271]
    one, other = load_stack(CONTROL).model, load_stack(CANDIDATE).model
    without_heads = [[c.model_copy(update={"heads": ()}) for c in stack.components] for stack in (one, other)]
    assert without_heads[0] == without_heads[1]
    assert one.base == other.base
    assert (one.claims, [claim.model_dump()["kernels"] for claim in other.claims]) == ((), [KERNELS])


def test_the_shipped_pins_are_those_of_the_release_and_no_digit_is_invented() -> None:
    stack = load_stack(CONTROL).model
    assert stack.base is not None
    assert stack.base.digest == "sha256:3230c25ff95f8678a8eeb52a463f0d3b9f96f6ad550418cc51ea12177a55b41c"
    assert shipped(CONTROL) == {
        "vllm": {258: "63b77c8031e02d23a2c464627196cd5663f7116f", 270: "244d85a6fe99"},
        "b12x": {130: "9ead9eaa188c2d36f091c8e5225e196896545721"},
    }
    vllm = stack.components[0]
    assert vllm.integration is not None
    assert (vllm.base_commit[:12], vllm.integration.tree[:12]) == ("e2666d9a65f4", "fa13d334a296")
    assert vllm.install == ("/opt/vllm", "/opt/venv/lib/python3.12/site-packages")


def test_the_stack_s_image_is_the_profile_s() -> None:
    profile = tomllib.loads((PROJECT / "profiles" / "rtxpro6000x4.toml").read_text("utf-8"))
    base = load_stack(CONTROL).model.base
    assert base is not None
    assert base.reference == profile["image"]["reference"]


@pytest.mark.parametrize("name", [CONTROL, CANDIDATE])
def test_without_the_release_s_patch_the_message_says_where_it_is_before_anything_is_fetched(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stack in (CONTROL, CANDIDATE):
        shutil.copy(PROJECT / "stacks" / f"{stack}.toml", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))  # no git, so no network
    told = refusal(tmp_path / f"{name}.toml")
    assert told.startswith(f"component vllm: patch {tmp_path}/patches/gg-v20-r31/vllm.integration.patch cannot be read")
    assert "get it from github.com/local-inference-lab/blackwell-llm-docker, patches/releases/" in told
