from __future__ import annotations

import pytest

from harness.config.options import SETTINGS, from_arguments, from_environment
from harness.errors import ConfigError


def test_each_setting_is_defined_once_with_one_option_one_variable_one_key() -> None:
    for names in (
        [s.option for s in SETTINGS],
        [s.variable for s in SETTINGS],
        [s.key for s in SETTINGS],
        [s.dest for s in SETTINGS],
    ):
        assert len(set(names)) == len(SETTINGS)


@pytest.mark.parametrize(
    ("option", "variable", "dest"),
    [("--burn-in", "QUALIFY_BURN_IN", "burn_in"), ("--seed", "QUALIFY_SEED", "seed")],
)
def test_the_variable_and_the_argument_are_named_after_the_option(option: str, variable: str, dest: str) -> None:
    (setting,) = (s for s in SETTINGS if s.option == option)
    assert (setting.variable, setting.dest) == (variable, dest)


def test_the_environment_gives_keys_values_and_their_variable() -> None:
    environ = {"QUALIFY_PAIRS": "6", "QUALIFY_MODES": "mtp0, mtp1,", "HOME": "/root", "QUALIFY_SEED": ""}
    assert sorted(from_environment(environ)) == [
        ("plan.modes", ["mtp0", "mtp1"], "environment QUALIFY_MODES"),
        ("plan.pairs", 6, "environment QUALIFY_PAIRS"),
    ]


def test_an_unset_option_gives_nothing_and_a_given_one_its_value() -> None:
    given = list(from_arguments({"pairs": None, "burn_in": "2", "caches": "cold", "stranger": "1"}, []))
    assert given == [("plan.burn_in", 2, "option --burn-in"), ("plan.caches", ["cold"], "option --caches")]


@pytest.mark.parametrize("text", ["four", "4.5", "4 pairs", "0x4"])
def test_a_number_that_is_none_is_refused_with_the_place_it_came_from(text: str) -> None:
    with pytest.raises(ConfigError, match=f"QUALIFY_PAIRS: `{text}` is not a whole number"):
        list(from_environment({"QUALIFY_PAIRS": text}))
    with pytest.raises(ConfigError, match=f"--pairs: `{text}` is not a whole number"):
        list(from_arguments({"pairs": text}, []))


@pytest.mark.parametrize(
    ("assignment", "key", "value"),
    [
        ("course.identity_prompts=4", "course.identity_prompts", 4),
        ("gates.steps_pct=2.5", "gates.steps_pct", 2.5),
        ("serve.flags.enforce-eager=true", "serve.flags.enforce-eager", True),
        ('serve.env.A="1"', "serve.env.A", "1"),
        ("plan.modes=['mtp0']", "plan.modes", ["mtp0"]),
        ("control=cpu-as-is", "control", "cpu-as-is"),
        ("model.path = /data/my model", "model.path", "/data/my model"),
        ("serve.env.A=b=c", "serve.env.A", "b=c"),
        ("control=", "control", ""),
    ],
)
def test_an_assignment_takes_a_toml_value_or_the_bare_text(assignment: str, key: str, value: object) -> None:
    assert list(from_arguments({}, [assignment])) == [(key, value, f"option --set {key}")]


def test_assignments_come_last_so_that_they_win() -> None:
    given = list(from_arguments({"pairs": "4"}, ["plan.pairs=6"]))
    assert [value for _, value, _ in given] == [4, 6]


@pytest.mark.parametrize("assignment", ["course.identity_prompts", "=4", " =4", ""])
def test_an_assignment_without_key_or_value_is_refused_with_an_example(assignment: str) -> None:
    with pytest.raises(ConfigError, match=r"write KEY=VALUE, e\.g\. --set"):
        list(from_arguments({}, [assignment]))
