"""Every profile and stack that comes with the project."""

from __future__ import annotations

import pytest

from harness.config.flags import to_argv
from harness.config.load import load_profile, load_stack
from harness.config.model import Profile
from harness.paths import PROJECT

PROFILES = sorted(p.stem for p in (PROJECT / "profiles").glob("*.toml"))
STACKS = sorted(p.stem for p in (PROJECT / "stacks").glob("*.toml"))
SHORT_COURSE = {"cpu-forged-tp2"}
"""Ranks are told apart by them; contexts, caches and kinds of request are measured by the others."""
GPU_PROFILES = ["rtx5090", "rtxpro6000x4"]

every_profile = pytest.mark.parametrize("name", PROFILES)
every_full_profile = pytest.mark.parametrize("name", [name for name in PROFILES if name not in SHORT_COURSE])
with_and_without_smoke = pytest.mark.parametrize("smoke", [False, True], ids=["full", "smoke"])


def profile(name: str, *, smoke: bool = False) -> Profile:
    return load_profile(name, smoke=smoke).model


def contexts(shipped: Profile) -> list[int]:
    return [context.prompt_tokens for context in shipped.course.contexts]


def test_there_is_a_profile_for_each_class_of_host() -> None:
    assert {"cpu-forged", *GPU_PROFILES} <= set(PROFILES)


@every_profile
@with_and_without_smoke
def test_a_profile_is_valid_and_named_after_its_file(name: str, smoke: bool) -> None:
    assert profile(name, smoke=smoke).name == name


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_is_valid_and_named_after_its_file(name: str) -> None:
    assert load_stack(name).model.name == name


@every_profile
def test_the_stacks_that_a_profile_names_exist(name: str) -> None:
    for stack in (profile(name).control, profile(name).candidate):
        load_stack(stack)


@every_profile
def test_mtp0_has_no_speculative_config_at_all(name: str) -> None:
    mode = profile(name).modes["mtp0"]
    assert mode.draft_tokens == 0
    assert not any("spec" in item for item in to_argv(mode.flags))


@every_profile
def test_a_mode_is_named_after_its_draft_tokens(name: str) -> None:
    modes = profile(name).modes
    assert {mode: f"mtp{modes[mode].draft_tokens}" for mode in modes} == {mode: mode for mode in modes}


@every_full_profile
@with_and_without_smoke
def test_every_profile_measures_2k_and_32k(name: str, smoke: bool) -> None:
    assert contexts(profile(name, smoke=smoke)) == [2048, 32_768]


@every_profile
@with_and_without_smoke
def test_the_longest_request_fits_the_model_length(name: str, smoke: bool) -> None:
    shipped = profile(name, smoke=smoke)
    limit = shipped.serve.flags["max-model-len"]
    assert isinstance(limit, int)
    assert shipped.course.longest_tokens <= limit


@every_full_profile
def test_smoke_is_one_pair_with_mtp_in_both_caches(name: str) -> None:
    plan = profile(name, smoke=True).plan
    assert (plan.pairs, plan.burn_in, plan.modes, plan.warmups) == (1, 0, ("mtp1",), ("engine",))
    assert plan.caches == ("cold", "warm")


@every_profile
def test_no_value_of_the_environment_looks_like_a_credential(name: str) -> None:
    shipped = profile(name)
    for serve in (shipped.serve, shipped.warmup_off, *shipped.modes.values()):
        assert not [key for key in serve.env if "TOKEN" in key or "SECRET" in key or "KEY" in key.split("_")]


@pytest.mark.parametrize("name", GPU_PROFILES)
def test_a_gpu_profile_pins_its_image_by_digest_and_names_the_version_inside(name: str) -> None:
    shipped = profile(name)
    assert shipped.launcher == "docker"
    assert shipped.image is not None
    repository, _, digest = shipped.image.reference.partition("@sha256:")
    assert repository == "docker.io/voipmonitor/vllm"  # no tag: a tag moves
    assert len(digest) == 64
    assert shipped.engine.version.startswith("0.11.2.dev280+gilded.gnosis.v20.")


@pytest.mark.parametrize(("name", "gpus"), [("rtx5090", 1), ("rtxpro6000x4", 4)])
def test_a_gpu_profile_asks_for_the_gpus_that_the_model_is_spread_over(name: str, gpus: int) -> None:
    shipped = profile(name)
    assert shipped.host.gpus == shipped.serve.flags.get("tensor-parallel-size", 1) == gpus


@pytest.mark.parametrize("name", GPU_PROFILES)
def test_a_gpu_profile_judges_speed(name: str) -> None:
    shipped = profile(name)
    assert (shipped.plan.pairs, shipped.plan.burn_in) == (4, 2)
    assert {"mtp0", "mtp1", "mtp3"} == set(shipped.modes)
    assert shipped.plan.modes == ("mtp0", "mtp1")


@pytest.mark.parametrize("name", GPU_PROFILES)
def test_nothing_is_served_from_a_prefix_cache(name: str) -> None:
    assert "--no-enable-prefix-caching" in to_argv(profile(name).serve.flags)


@pytest.mark.parametrize("name", GPU_PROFILES)
def test_the_model_folder_is_the_users_to_set(name: str) -> None:
    loaded = load_profile(name, overrides=[("model.path", "/data/my-model", "option --set model.path")])
    assert loaded.model.model.path == "/data/my-model"
    assert loaded.layers.origin("model.path") == "option --set model.path"


@every_profile
def test_switching_warm_ups_off_changes_nothing_else(name: str) -> None:
    shipped = profile(name)
    assert shipped.warmup_off.flags or shipped.warmup_off.env
    assert not shipped.warmup_off.flags.keys() & shipped.serve.flags.keys()
    assert not shipped.warmup_off.env.keys() & shipped.serve.env.keys()
    assert "enforce-eager" not in shipped.warmup_off.flags


def test_mla_over_two_ranks_is_what_vllm_0_25_1_serves_with_context_parallelism() -> None:
    """Ranks share the heads; the V2 runner's drafter knows no context parallelism; multicast stays off."""
    shipped = profile("h200x2-mla")
    forge, flags = shipped.model.forge, shipped.serve.flags
    assert forge is not None
    assert forge.mla
    assert flags["tensor-parallel-size"] == shipped.host.gpus == 2
    assert (forge.hidden // forge.head_size) % 2 == 0
    assert "cp-kv-cache-interleave-size" not in flags, "MTP needs the default of 1"
    assert shipped.serve.env["VLLM_USE_V2_MODEL_RUNNER"] == "0"


@pytest.mark.parametrize("name", [name for name in PROFILES if name.startswith("h200")])
def test_no_profile_of_a_lent_machine_lets_its_gpus_use_multicast(name: str) -> None:
    env = profile(name).serve.env
    assert (env["NCCL_NVLS_ENABLE"], env["TORCH_SYMM_MEM_DISABLE_MULTICAST"]) == ("0", "1")
    assert env["NVSHMEM_DISABLE_NVLS"] == "1"
