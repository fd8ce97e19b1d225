"""The controls as they stand: each can be made, and everything that the issue asks for is there."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from harness.config.load import load_profile, load_stack
from harness.config.model import Profile
from harness.config.options import from_arguments
from harness.controls.control import Control, Engine
from harness.controls.making import make
from harness.controls.table import CONTROLS, less_kv, smaller_batches
from harness.fakes.faults import VARIABLE, parse_faults
from harness.fakes.nvml import read_host
from harness.words import Word

every_control = pytest.mark.parametrize("control", CONTROLS, ids=lambda c: c.name)


def options(arguments: tuple[str, ...], name: str) -> list[str]:
    return [value for option, value in pairwise(arguments) if option == name]


def session_of(arguments: tuple[str, ...]) -> tuple[Profile, list[str]]:
    """The profile and the candidate that these options choose, read as `qualify run` reads them."""
    [name], candidate = options(arguments, "--profile"), options(arguments, "--candidate")
    settings = from_arguments({}, options(arguments, "--set"))
    return load_profile(name, smoke="--smoke" in arguments, overrides=settings).model, candidate


def test_what_the_issue_asks_for_is_there() -> None:
    assert [c.name for c in CONTROLS if not c.worse] == ["same"], "one that must pass"
    assert {
        "lower-acceptance",
        "changed-successor",
        "less-kv",
        "deeper",
        "dies-at-first-request",
        "late-kernel",
        "memory-taken",
        "memory-not-back",
    } <= {c.name for c in CONTROLS}
    assert len({c.name for c in CONTROLS}) == len(CONTROLS)


@every_control
def test_a_fault_is_named_and_not_only_caught(control: Control) -> None:
    assert control.expects
    if control.worse:
        assert any(e.told and e.word is not Word.PASS for e in control.expects)
    else:
        assert {e.word for e in control.expects} == {Word.PASS}


@every_control
def test_every_control_has_a_twin_on_the_built_in_server(control: Control, tmp_path: Path) -> None:
    made = make(control, tmp_path, None)
    assert made.engine is (Engine.FAKE_GPU if control.fake.gpu else Engine.FAKE)
    profile, candidate = session_of(made.arguments)
    assert profile.engine.command[-2:] == ("-m", "harness.fakes")
    assert bool(candidate) == bool(control.worse)
    for stack in candidate:
        parse_faults(load_stack(stack).model.serve.env.get(VARIABLE, ""))
    if control.fake.gpu:
        [gpu] = read_host(Path(made.environment["QUALIFY_FAKE_NVML"])).gpus
        assert control.name in gpu.uuid, "no other session on this host waits for it"


@every_control
def test_on_the_embedded_profile_its_own_engine_shows_what_it_can(control: Control, tmp_path: Path) -> None:
    embedded = load_profile("cpu-forged").model
    made = make(control, tmp_path, embedded, ("--profile", "cpu-forged"))
    profile, candidate = session_of(made.arguments)
    assert (made.engine is Engine.PROFILE) == (control.forged is not None)
    assert (profile.name == "cpu-forged") == (control.forged is not None)
    if control.forged is not None and control.worse:
        assert load_stack(candidate[0]).model.name == f"cpu-{control.name}"


@every_control
@pytest.mark.parametrize("name", ["rtx5090", "rtxpro6000x4"])
def test_on_a_gpu_profile_flags_alone_show_what_they_can(control: Control, name: str, tmp_path: Path) -> None:
    made = make(control, tmp_path, load_profile(name).model, ("--profile", name))
    profile, candidate = session_of(made.arguments)
    assert (made.engine is Engine.PROFILE) == (control.name in ("same", "less-kv", "smaller-batches"))
    if made.engine is Engine.PROFILE and candidate:
        changed = load_stack(candidate[0]).model.serve.flags
        assert changed
        for flag, value in changed.items():
            before = profile.serve.flags[flag]
            assert isinstance(value, int | float)
            assert isinstance(before, int | float)
            assert 0 < value < before


def test_an_option_of_the_profile_reaches_it(tmp_path: Path) -> None:
    given = ("--profile", "cpu-forged", "--set", "plan.seed=9")
    made = make(CONTROLS[0], tmp_path, load_profile("cpu-forged").model, given)
    assert session_of(made.arguments)[0].plan.seed == 9


@pytest.mark.parametrize(
    ("flags", "kv", "batch"),
    [
        ({}, {"gpu-memory-utilization": 0.86}, {"max-num-batched-tokens": 1024}),
        (
            {"gpu-memory-utilization": 0.945, "max-num-batched-tokens": 3072},
            {"gpu-memory-utilization": 0.905},
            {"max-num-batched-tokens": 1536},
        ),
        (
            {"num-gpu-blocks-override": 400, "gpu-memory-utilization": 0.9},
            {"num-gpu-blocks-override": 300},
            {"max-num-batched-tokens": 1024},
        ),
    ],
    ids=["neither", "share of memory", "blocks"],
)
def test_flags_that_follow_from_a_profile(flags: dict[str, object], kv: object, batch: object) -> None:
    base = load_profile("cpu-forged").model
    profile = base.model_copy(update={"serve": base.serve.model_copy(update={"flags": flags})})
    assert less_kv(profile) == kv
    assert smaller_batches(profile) == batch


def test_the_deeper_model_gives_the_same_answers(tmp_path: Path) -> None:
    from harness.session.compose import model_of

    profile, rules = load_profile("cpu-forged").model, []
    for name in ("", "cpu-deeper"):
        folder = Path(model_of(profile, load_stack(name).model, tmp_path))
        rules.append(json.loads((folder / "truth.json").read_text("utf-8"))["successor"])
    assert rules[0] == rules[1]
