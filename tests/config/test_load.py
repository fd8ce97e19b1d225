from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.config.load import find, load_profile, load_stack
from harness.config.options import from_arguments, from_environment
from harness.errors import ConfigError
from harness.paths import PROJECT
from harness.words import ExitCode

HEAD = """
name = "tiny"
description = "a profile for tests"
"""

BODY = """
[model]
path = "models/tiny"

[serve.flags]
max-model-len = 33_025

[modes.mtp0]
[modes.mtp1]
draft_tokens = 1
flags = { speculative-config = { method = "mtp", num_speculative_tokens = 1 } }

[plan]
pairs = 4
seed = 1
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a profile and name it: `extra` goes behind the body, `head` before it."""
    monkeypatch.chdir(tmp_path)

    def _write(extra: str = "", *, head: str = HEAD, body: str = BODY) -> str:
        (tmp_path / "tiny.toml").write_text(head + body + extra, "utf-8")
        return "tiny.toml"

    return _write


def refusal(name: str, *, smoke: bool = False, overrides: tuple[tuple[str, Any, str], ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        load_profile(name, smoke=smoke, overrides=overrides)
    assert caught.value.exit_code == ExitCode.USAGE
    return str(caught.value)


def stack_refusal(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_stack(str(path))
    return str(caught.value)


# --- finding and reading -----------------------------------------------------------------------------


def test_a_valid_file_becomes_a_model_with_its_path(write: Write) -> None:
    loaded = load_profile(write())
    assert (loaded.model.name, loaded.model.plan.pairs, loaded.path) == ("tiny", 4, Path("tiny.toml"))


def test_a_name_stands_for_the_file_of_the_project() -> None:
    assert find("cpu-forged", "profiles") == find("profiles/cpu-forged.toml", "profiles").resolve()


@pytest.mark.parametrize("name", ["cpu-forget", "profiles/cpu-forget.toml", "profiles", ""])
def test_an_unknown_profile_is_refused_with_those_that_there_are(name: str) -> None:
    known = ", ".join(sorted(p.stem for p in (PROJECT / "profiles").glob("*.toml")))
    told = f"no such file in profiles/: `{name}`. Give a path ending in .toml or one of: {known}"
    assert refusal(name) == told


def test_broken_toml_is_refused_with_its_line(write: Write) -> None:
    name = write(head=HEAD + "launcher = docker\n")
    assert refusal(name) == "tiny.toml: not valid TOML: Invalid value (at line 4, column 12)"


def test_a_key_given_twice_is_refused(write: Write) -> None:
    assert "tiny.toml: not valid TOML: " in refusal(write("pairs = 2\n"))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read: 'utf-8' codec"):
        load_profile(str(file))


# --- one line per fault: place, key, what was expected ---------------------------------------------


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("[course]\nidentity_promts = 4", "tiny.toml: key `course.identity_promts`: unknown key; check the spelling"),
        ("[sever.flags]\na = 1", "tiny.toml: key `sever`: unknown key; check the spelling"),
        ("[gates]\nsteps_pct = '2'", "tiny.toml: key `gates.steps_pct`: Input should be a valid number (got '2')"),
        ("[gates]\nsteps_pct = 0", "tiny.toml: key `gates.steps_pct`: Input should be greater than 0 (got 0)"),
        ("[host]\ngpus = true", "tiny.toml: key `host.gpus`: Input should be a valid integer (got True)"),
        ("[host]\ngpus = 1.5", "tiny.toml: key `host.gpus`: Input should be a valid integer (got 1.5)"),
        ("[serve.env]\nA = 1", "tiny.toml: key `serve.env.A`: Input should be a valid string (got 1)"),
        ("[engine]\ncommand = 'vllm'", "tiny.toml: key `engine.command`: Input should be a valid array (got 'vllm')"),
        (
            "[course]\ncontexts = [{ prompt_tokens = '2048' }]",
            "tiny.toml: key `course.contexts.0.prompt_tokens`: Input should be a valid integer (got '2048')",
        ),
        ("[estimate]\ncourse_s = 2026-08-09", "tiny.toml: dates and times have no place here, and there is one: "),
    ],
)
def test_a_wrong_key_or_type_is_named_with_file_and_value(write: Write, extra: str, told: str) -> None:
    message = refusal(write(extra))
    assert message.startswith(told)
    assert "\n" not in message


@pytest.mark.parametrize("value", ["[[1]]", "[true]", "[{}]"])
@pytest.mark.parametrize("table", ["warmup_off.flags", "modes.mtp0.flags"])
def test_a_wrong_flag_value_is_one_line_and_not_one_per_kind_that_it_might_have_been(
    write: Write, table: str, value: str
) -> None:
    message = refusal(write(f"[{table}]\nint = {value}"))
    assert message.startswith(f"tiny.toml: key `{table}.int`: a flag's value is true, false, a number, text, ")
    assert "\n" not in message


def test_all_faults_are_told_at_once(write: Write) -> None:
    message = refusal(write("[gates]\nsteps_pct = -1\nstep_pct = 1\n[host]\nlanes = 0"))
    assert [line.split("`")[1] for line in message.splitlines()] == ["host.lanes", "gates.steps_pct", "gates.step_pct"]


def test_a_missing_key_is_named(write: Write) -> None:
    assert refusal(write(head="name = 'tiny'\n")) == "tiny.toml: key `description`: Field required"


# --- values that contradict each other -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (
            "[modes.mtp2]\ndraft_tokens = 2\nflags = { speculative-config = { num_speculative_tokens = 3 } }",
            "key `modes.mtp2`: draft_tokens = 2 contradicts speculative-config, which asks for 3",
        ),
        (
            "[modes.mtp2]\ndraft_tokens = 2",
            "key `modes.mtp2`: draft_tokens = 2 contradicts speculative-config, which asks for 0",
        ),
        (
            "[modes.off]\nflags = { speculative-config = { num_speculative_tokens = 1 } }",
            "key `modes.off`: draft_tokens = 0 contradicts speculative-config, which asks for 1",
        ),
        (
            "[modes.off]\nflags = { speculative-config = { method = 'mtp' } }",
            "key `modes.off`: draft_tokens = 0 contradicts speculative-config, which asks for None",
        ),
        (
            "[modes.off]\nflags = { speculative-config = '{\"num_speculative_tokens\":1}' }",
            "key `modes.off`: write speculative-config as one table",
        ),
        (
            "[modes.off]\nflags = { 'speculative-config.num_speculative_tokens' = 1 }",
            "key `modes.off`: write speculative-config as one table",
        ),
        (
            "[warmup_off.flags]\nspeculative-config = { method = 'mtp' }",
            "speculative-config stands in [warmup_off.flags]; it belongs to a mode",
        ),
        (
            "[modes.short]\nflags = { max-model-len = 2048 }",
            "flag `max-model-len` stands in [serve.flags] and in [modes.short.flags]; keep one",
        ),
        (
            "[course]\ndecode_output_tokens = 257",
            "max-model-len = 33025 is below the longest request of the course and its",
        ),
        ("[course]\nfirst_prompt_output_tokens = 300", "(33069 tokens)"),
        ("[course]\nladder = [{ prompt_tokens = 33_017 }]", "(33026 tokens)"),
        ("[course]\nidentity_output_tokens = 33_000", "(33065 tokens)"),
        ("[warmup_off.flags]\nport = 8000", "key `warmup_off`: flag `port` is set by the launcher itself"),
        ("[modes.x]\nflags = { model = 'm' }", "key `modes.x`: flag `model` is set by the launcher itself"),
        ("[warmup_off.flags]\nenable_x = false", "key `warmup_off`: flag `enable_x`: write `enable-x`"),
        ("[warmup_off.flags]\nno-x = true", "key `warmup_off`: flag `no-x`: write `x = false`"),
        ("[warmup_off.flags]\n'--x' = true", "key `warmup_off.flags.--x`: "),
        ("[image]\nreference = 'voipmonitor/vllm:r31'", "key `image.reference`: "),
        ("[image]\nreference = 'voipmonitor/vllm@sha256:3230c25ff95f'", "key `image.reference`: "),
    ],
)
def test_a_contradiction_is_refused(write: Write, extra: str, told: str) -> None:
    message = refusal(write(extra))
    assert message.startswith("tiny.toml: ")
    assert told in message


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("plan.pairs", 3, "pairs = 3: ABBA blocks need 1 or an even number of pairs"),
        ("plan.pairs", 0, "greater than or equal to 1"),
        ("plan.modes", ["mtp0", "mtp9"], "plan.modes names `mtp9`, which [modes] does not define (mtp0, mtp1)"),
        ("plan.modes", ["mtp0", "mtp0"], "modes names something twice: mtp0, mtp0"),
        ("plan.warmups", ["hot"], "Input should be 'none', 'engine' or 'primed' (got 'hot')"),
        ("plan.caches", [], "at least 1 item"),
        ("serve.flags.host", "0.0.0.0", "flag `host` is set by the launcher itself"),
        ("serve.flags.served-model-name", "x", "flag `served-model-name` is set by the launcher itself"),
        ("serve.flags.speculative-config.method", "mtp", "speculative-config stands in [serve.flags]"),
        ("launcher", "docker", 'launcher = "docker" needs [image]'),
        ("launcher", "podman", "Input should be 'process' or 'docker' (got 'podman')"),
        ("model.path", "", "name either `path` or `forge`, not both and not neither"),
        ("model.forge.layers", 2, "name either `path` or `forge`, not both and not neither"),
        ("name", "My Profile", "String should match pattern"),
        ("schema_version", 2, "Input should be 1 (got 2)"),
    ],
)
def test_a_wrong_option_is_refused_and_named_beside_the_file(write: Write, key: str, value: object, told: str) -> None:
    message = refusal(write(), overrides=((key, value, f"option --set {key}"),))
    place = message.partition(": ")[0]
    assert place.split(" and ")[-1] == f"option --set {key}"
    assert told in message


@pytest.mark.parametrize("pairs", [1, 2, 4, 6])
def test_one_pair_or_an_even_number_is_accepted(write: Write, pairs: int) -> None:
    assert load_profile(write(), overrides=[("plan.pairs", pairs, "option --pairs")]).model.plan.pairs == pairs


def test_a_course_that_just_fits_with_its_draft_is_accepted(write: Write) -> None:
    """At the very limit vLLM 0.32.0 drops the last step's draft, and its counts follow no arithmetic."""
    profile = load_profile(write()).model
    assert profile.course.longest_tokens + 1 == profile.serve.flags["max-model-len"] == 33_025


# --- the smoke table ---------------------------------------------------------------------------------------


def test_smoke_lays_its_table_over_the_file_and_only_when_asked(write: Write) -> None:
    name = write("[smoke.plan]\npairs = 1\n")
    assert load_profile(name).model.plan.pairs == 4
    smoke = load_profile(name, smoke=True).model.plan
    assert (smoke.pairs, smoke.seed) == (1, 1)


@pytest.mark.parametrize("extra", ["", "[smoke]\n"])
def test_smoke_without_a_table_is_refused(write: Write, extra: str) -> None:
    told = "tiny.toml: --smoke needs a [smoke] table, and this profile has none"
    assert refusal(write(extra), smoke=True) == told


@pytest.mark.parametrize("smoke", [False, True])
@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("[smoke.plan]\npears = 1\n", "tiny.toml [smoke]: key `plan.pears`: unknown key"),
        ("[smoke.plan]\npairs = '1'\n", "tiny.toml [smoke]: key `plan.pairs`: Input should be a valid integer"),
        ("[smoke.plan]\npairs = 3\n", "tiny.toml and tiny.toml [smoke]: key `plan`: pairs = 3"),
    ],
)
def test_a_broken_smoke_table_is_refused_also_on_days_when_nobody_uses_it(
    write: Write, extra: str, told: str, smoke: bool
) -> None:
    assert refusal(write(extra), smoke=smoke).startswith(told)


def test_a_smoke_key_that_is_no_table_is_refused(write: Write) -> None:
    assert refusal(write(head=HEAD + "smoke = true\n")) == "tiny.toml: key `smoke`: must be a table (got True)"


# --- origins ---------------------------------------------------------------------------------------------


def test_default_then_file_then_smoke_then_environment_then_option(write: Write) -> None:
    name = write("[smoke.plan]\npairs = 1\nseed = 2\nmodes = ['mtp1']\nwarmups = ['engine']\n")
    overrides = [
        *from_environment({"QUALIFY_SEED": "3", "QUALIFY_MODES": "mtp0", "QUALIFY_WARMUPS": "none"}),
        *from_arguments({"modes": "mtp0,mtp1", "warmups": "primed"}, ["plan.warmups=['none','primed']"]),
    ]
    loaded = load_profile(name, smoke=True, overrides=overrides)
    plan = loaded.model.plan
    keys = ("burn_in", "pairs", "seed", "modes", "warmups")
    assert {key: (getattr(plan, key), loaded.layers.origin(f"plan.{key}")) for key in keys} == {
        "burn_in": (0, "default"),
        "pairs": (1, "tiny.toml [smoke]"),
        "seed": (3, "environment QUALIFY_SEED"),
        "modes": (("mtp0", "mtp1"), "option --modes"),
        "warmups": (("none", "primed"), "option --set plan.warmups"),
    }
    assert loaded.layers.origin("serve.flags.max-model-len") == "tiny.toml"


def test_a_file_of_the_project_is_shown_below_the_project() -> None:
    assert load_profile("cpu-forged").layers.origin("plan.pairs") == "profiles/cpu-forged.toml"


# --- stacks ------------------------------------------------------------------------------------------------


def test_no_stack_is_the_profile_as_it_is() -> None:
    loaded = load_stack("")
    assert (loaded.model.name, loaded.model.serve.flags, loaded.path) == ("as-is", {}, None)


def test_an_unknown_stack_is_refused() -> None:
    with pytest.raises(ConfigError, match="no such file in stacks/: `r99`"):
        load_stack("r99")


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("model_path = 'm'\nforge = { layers = 2 }", "name either `model_path` or [forge], not both"),
        ("patches = [258]", "key `patches`: unknown key; check the spelling"),
        ("forge = { layers = 'two' }", "key `forge.layers`: a value here is a number, true or false (got 'two')"),
        ("serve.flags.port = 1", "key `serve`: flag `port` is set by the launcher itself"),
        ("serve.flags.speculative-config = { method = 'mtp' }", "speculative-config stands in [serve.flags]"),
    ],
)
def test_a_stack_is_held_to_the_same_rules(tmp_path: Path, extra: str, told: str) -> None:
    message = stack_refusal(tmp_path / "s.toml", f"name = 's'\ndescription = 'd'\n{extra}\n")
    assert told in message
    assert "\n" not in message
