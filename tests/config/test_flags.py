from __future__ import annotations

import json

import pytest

from harness.config.flags import FlagValue, check_flag_name, to_argv


@pytest.mark.parametrize(
    ("value", "argv"),
    [
        (True, ["--a-flag"]),
        (False, ["--no-a-flag"]),
        (33_024, ["--a-flag", "33024"]),
        (0, ["--a-flag", "0"]),
        (1, ["--a-flag", "1"]),
        (0.945, ["--a-flag", "0.945"]),
        ("fp8_e4m3", ["--a-flag", "fp8_e4m3"]),
        ("", ["--a-flag", ""]),
        ([1, 2, 4], ["--a-flag", "1", "2", "4"]),
        (["a", 2, 0.5], ["--a-flag", "a", "2", "0.5"]),
        ({"method": "mtp", "num_speculative_tokens": 1}, ["--a-flag", '{"method":"mtp","num_speculative_tokens":1}']),
        ({}, ["--a-flag", "{}"]),
    ],
)
def test_a_value_becomes_its_command_line_items(value: FlagValue, argv: list[str]) -> None:
    assert to_argv({"a-flag": value}) == argv


def test_flags_are_ordered_by_name_so_that_equal_flags_give_equal_argv() -> None:
    one = to_argv({"b": 1, "a": True, "c": {"y": 1, "x": [1, None]}})
    other = to_argv({"c": {"x": [1, None], "y": 1}, "a": True, "b": 1})
    assert one == other == ["--a", "--b", "1", "--c", '{"x":[1,null],"y":1}']


def test_a_table_keeps_its_truth_values_where_a_plain_flag_would_turn_them_into_no() -> None:
    argv = to_argv({"kernel-config": {"enable_cutedsl_warmup": False}})
    assert argv == ["--kernel-config", '{"enable_cutedsl_warmup":false}']


@pytest.mark.parametrize("text", ["; rm -rf /", "$(id)", "a b\n'\"", "--port", "re:.*visual\\..*"])
def test_a_value_is_one_item_whatever_a_shell_would_make_of_it(text: str) -> None:
    assert to_argv({"a": text}) == ["--a", text]
    assert json.loads(to_argv({"a": {"k": text}})[1]) == {"k": text}


def test_no_flags_no_items() -> None:
    assert to_argv({}) == []


@pytest.mark.parametrize("name", ["max-model-len", "kernel-config.enable_jit_warmup", "o1", "note"])
def test_a_plain_name_is_accepted(name: str) -> None:
    check_flag_name(name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("--enforce-eager", "without leading dashes"),
        ("-O3", "without leading dashes"),
        ("max_model_len", "write `max-model-len`"),
        ("kernel_config.enable_jit_warmup", "so that one flag has one name"),
        ("no-async-scheduling", "write `async-scheduling = false`"),
    ],
)
def test_another_spelling_of_a_flag_is_refused_with_the_right_one(name: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"flag `{name}`: .*{told}"):
        check_flag_name(name)
