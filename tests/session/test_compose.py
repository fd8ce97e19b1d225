"""What one launch is started with: layers in order, and messages that say what does not fit."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.config.load import load_stack
from harness.config.model import Profile, Stack
from harness.errors import ConfigError, SetupFailure
from harness.forge.truth import load_rule
from harness.paths import PROJECT
from harness.records import Plan, PlannedLaunch
from harness.session.compose import (
    engine_command,
    environment_layers,
    model_of,
    server_argv,
    server_flags,
)
from harness.session.plan import make_plan
from harness.words import Arm, Warmup
from tests.judge.bundles import small_profile, stack

SPECULATE = {"method": "mtp", "num_speculative_tokens": 1}


def profile(**overrides: object) -> Profile:
    layers: dict[str, object] = {
        "serve.flags": {"max-model-len": 256, "max-num-seqs": 8, "kernel-config": {"a": 1}},
        "serve.env": {"WHO": "profile", "ONLY_PROFILE": "1"},
        "modes.mtp1": {"draft_tokens": 1, "flags": {"speculative-config": SPECULATE}, "env": {"WHO": "mode"}},
        "warmup_off.flags": {"kernel-config": {"enable_jit_warmup": False}, "max-num-seqs": 4},
        "warmup_off.env": {"WHO": "off", "VLLM_DEEP_GEMM_WARMUP": "skip"},
        "plan.warmups": ["none", "engine"],
        "plan.modes": ["mtp0", "mtp1"],
    }
    return small_profile(layers | overrides)


def made(candidate: Stack | None = None, **overrides: object) -> Plan:
    return make_plan("s", profile(**overrides), stack("plain"), candidate or stack("other"))


def launch(plan: Plan, *, warmup: str = "engine", mode: str = "mtp1", arm: Arm = Arm.CANDIDATE) -> PlannedLaunch:
    [found] = [x for x in plan.launches if (x.warmup, x.mode, x.arm) == (warmup, mode, arm)]
    return found


# --- layers ------------------------------------------------------------------------------------------


def test_a_mode_adds_its_flags_and_mtp0_has_no_speculative_config_at_all() -> None:
    plan = made()
    flags = {m: server_flags(plan.profile, plan.candidate, launch(plan, mode=m)) for m in ("mtp0", "mtp1")}
    assert flags["mtp1"]["speculative-config"] == SPECULATE
    assert "speculative-config" not in flags["mtp0"]
    assert flags["mtp0"] == {k: v for k, v in flags["mtp1"].items() if k != "speculative-config"}


@pytest.mark.parametrize("warmup", ["none", "engine"])
def test_only_without_warm_up_the_off_switches_are_there(warmup: str) -> None:
    plan = made()
    flags = server_flags(plan.profile, plan.candidate, launch(plan, warmup=warmup))
    environment = merged(plan, launch(plan, warmup=warmup))
    off = warmup == Warmup.NONE
    switches = plan.profile.warmup_off.flags["kernel-config"]
    assert isinstance(switches, dict)
    assert flags["kernel-config"] == ({"a": 1} | switches if off else {"a": 1})
    assert flags["max-num-seqs"] == (4 if off else 8)
    assert ("VLLM_DEEP_GEMM_WARMUP" in environment) == off
    assert environment["WHO"] == ("off" if off else "mode")


def test_the_stack_wins_over_everything() -> None:
    winner = Stack.model_validate_json(
        json.dumps(
            {
                "name": "winner",
                "description": "an arm",
                "serve": {
                    "flags": {"max-num-seqs": 99, "kernel-config": {"a": 2, "backend": "mine"}},
                    "env": {"WHO": "stack", "VLLM_DEEP_GEMM_WARMUP": "full"},
                },
            }
        )
    )
    plan = made(winner)
    off = launch(plan, warmup="none")
    flags = server_flags(plan.profile, plan.candidate, off)
    assert flags["max-num-seqs"] == 99
    kernels = flags["kernel-config"]
    assert isinstance(kernels, dict)
    assert (kernels["a"], kernels["backend"]) == (2, "mine")
    # It names a backend, and does not switch the warm-ups on again.
    assert kernels["enable_jit_warmup"] is False
    assert merged(plan, off)["WHO"] == "stack"
    assert merged(plan, off)["VLLM_DEEP_GEMM_WARMUP"] == "full"


def merged(plan: Plan, of: PlannedLaunch) -> dict[str, str]:
    environment: dict[str, str] = {}
    for layer in environment_layers(plan.profile, plan.stack(of.arm), of):
        environment |= layer
    return environment


def test_environment_layers_come_in_the_order_of_the_flags() -> None:
    plan = made()
    assert [x.get("WHO") for x in environment_layers(plan.profile, plan.candidate, launch(plan, warmup="none"))] == [
        "profile",
        "mode",
        "off",
        None,
    ]


def test_composing_changes_neither_profile_nor_stack() -> None:
    plan = made()
    before = plan.model_dump_json()
    for x in plan.launches:
        server_argv(plan, x, "m", 1)
        merged(plan, x)
    assert plan.model_dump_json() == before


# --- the command -------------------------------------------------------------------------------------


def test_the_command_is_a_list_with_the_arms_own_flags() -> None:
    plan = made(stack("other", max_num_seqs=2))
    argv = server_argv(plan, launch(plan), "/models/m", 8123)
    assert argv == [
        str(PROJECT / ".venv-vllm/bin/vllm"),
        "serve",
        "/models/m",
        "--served-model-name",
        "forged",
        "--host",
        "127.0.0.1",
        "--port",
        "8123",
        "--kernel-config",
        '{"a":1}',
        "--max-model-len",
        "256",
        "--max-num-seqs",
        "2",
        "--speculative-config",
        '{"method":"mtp","num_speculative_tokens":1}',
    ]
    control = server_argv(plan, launch(plan, arm=Arm.CONTROL), "/models/m", 8123)
    assert control[control.index("--max-num-seqs") + 1] == "8"


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (["bin/vllm"], f"{PROJECT}/bin/vllm"),
        (["/usr/bin/vllm"], "/usr/bin/vllm"),
        (["vllm"], "vllm"),
        (["python3", "-m", "harness.fakes"], "python3"),
    ],
)
def test_a_relative_engine_lies_below_the_project_and_a_bare_name_in_the_path(command: list[str], first: str) -> None:
    assert engine_command(profile(**{"engine.command": command})) == [first, *command[1:]]


# --- the model ---------------------------------------------------------------------------------------


def test_a_forged_model_is_made_once_per_recipe(tmp_path: Path) -> None:
    plain = model_of(profile(), stack("plain"), tmp_path)
    weights = Path(plain) / "model.safetensors"
    made_at = weights.stat().st_mtime_ns
    assert model_of(profile(), stack("same", {"wrong_drafts": 0.3}), tmp_path) == plain
    assert weights.stat().st_mtime_ns == made_at, "made again"
    other = model_of(profile(), stack("other", {"changed_successor": True}), tmp_path)
    assert other != plain
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(".")) == sorted(
        [Path(plain).name, Path(other).name]
    )
    ours, theirs = load_rule(Path(plain)), load_rule(Path(other))
    assert ours is not None
    assert theirs is not None
    assert sum(a != b for a, b in zip(ours.successor, theirs.successor, strict=True)) == 1


def test_a_named_folder_is_served_from_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    own = Stack(name="own", description="an arm", model_path="mine")
    assert model_of(profile(), own, tmp_path / "forged") == str(tmp_path / "mine")
    assert not (tmp_path / "forged").exists(), "nothing is forged that is not served"


def test_a_relative_folder_of_the_project_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Stack(name="own", description="an arm", model_path="profiles")
    assert model_of(profile(), own, tmp_path) == str(PROJECT / "profiles")


@pytest.mark.parametrize("path", ["/no/such/model", "./no/such/model", "../no-such-model"])
def test_a_folder_that_is_not_there_is_a_setup_failure_with_its_remedy(tmp_path: Path, path: str) -> None:
    own = Stack(name="own", description="an arm", model_path=path)
    with pytest.raises(SetupFailure, match=rf"model folder {path} does not exist; .* --set model\.path="):
        model_of(profile(), own, tmp_path)


def test_a_hub_name_is_left_to_the_engine(tmp_path: Path) -> None:
    own = Stack(name="own", description="an arm", model_path="org/model-7b")
    assert model_of(profile(), own, tmp_path) == "org/model-7b"


def test_a_stack_that_reforges_a_model_that_is_not_forged_is_refused(tmp_path: Path) -> None:
    served = profile().model_copy(update={"model": profile().model.model_copy(update={"path": "x", "forge": None})})
    with pytest.raises(ConfigError, match=r"stack other: \[forge\] changes a forged model, but the profile serves"):
        model_of(served, stack("other", {"layers": 2}), tmp_path)


@pytest.mark.parametrize(
    ("forge", "told"),
    [
        ({"layerz": 2}, "layerz"),
        ({"layers": 0}, "greater than or equal to 1"),
        ({"wrong_drafts": 1.0}, "less than 1"),
    ],
)
def test_arguments_that_no_model_has_are_refused_with_the_stacks_name(
    tmp_path: Path, forge: dict[str, int | float | bool], told: str
) -> None:
    with pytest.raises(ConfigError, match=r"stack other: \[forge\]: ") as caught:
        model_of(profile(), stack("other", forge), tmp_path)
    assert told in str(caught.value)


def test_a_recipe_that_cannot_be_built_names_its_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--vocab must lie between 8 and --hidden"):
        model_of(profile(), stack("other", {"vocab": 500}), tmp_path)


@pytest.mark.parametrize("name", sorted(p.stem for p in (PROJECT / "stacks").glob("*.toml")))
def test_every_shipped_stack_composes_with_the_embedded_profile(tmp_path: Path, name: str) -> None:
    plan = made(load_stack(name).model)
    assert server_argv(plan, launch(plan), "m", 1)
    if plan.candidate.forge:
        assert Path(model_of(plan.profile, plan.candidate, tmp_path)).is_dir()


def test_sessions_that_begin_at_once_share_a_forged_model_that_is_whole(tmp_path: Path) -> None:
    """Each would remove what the other has half written."""
    for number in range(5):
        wanted, folder = small_profile({"model.forge": {"seed": number, "vocab": 24}}), tmp_path / str(number)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: model_of(wanted, stack("s"), folder), range(4)))  # noqa: B023
        assert len(set(found)) == 1
        assert load_rule(Path(found[0])) is not None
