"""A variable that nothing reads: an A/B of it is an A/A, and its equal figures are no finding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.config.model import Stack
from harness.words import Word

from .bundles import Session

NAME = "variables of the stacks"
UNKNOWN = "Unknown vLLM environment variable detected: {}"
OWN = UNKNOWN.format("VLLM_CACHE_DIR")
"""Of the harness's own caches: stock engines do not list it."""


def arm(env: Mapping[str, str], flags: Mapping[str, int] | None = None) -> Stack:
    serve = {"env": dict(env), "flags": dict(flags or {})}
    return Stack.model_validate_json(json.dumps({"name": "an-arm", "description": "an arm", "serve": serve}))


def session(root: Path, control: Stack, candidate: Stack, *unknown: str) -> Session:
    """Both engines list all but these, and the harness's own."""
    said = (OWN, *map(UNKNOWN.format, unknown))
    return Session(root, control=control, candidate=candidate).both(said_at_start=said)


def test_arms_that_differ_in_nothing_that_the_engine_lists_are_a_warning(tmp_path: Path) -> None:
    row = session(tmp_path, arm({}), arm({"VLLM_EXL3_PREFILL_FP8": "1"}), "VLLM_EXL3_PREFILL_FP8").judge().row(NAME)
    assert (row.word, row.control, row.candidate) == (Word.WARN, None, "VLLM_EXL3_PREFILL_FP8")
    assert "the engine does not list VLLM_EXL3_PREFILL_FP8: unless a plugin reads it" in row.reason
    assert row.sources[0].endswith("server.log:3"), "the line in which it says so"


@pytest.mark.parametrize(
    ("control", "candidate"),
    [
        (arm({}), arm({"VLLM_A": "1"}, {"max-num-seqs": 2})),
        (arm({}), arm({"VLLM_A": "1", "VLLM_KNOWN": "1"})),
        (arm({"VLLM_A": "1"}), arm({"VLLM_A": "1"})),
    ],
    ids=["a-flag-too", "a-known-variable-too", "both-arms-alike"],
)
def test_where_something_else_may_be_under_test_it_is_a_note(tmp_path: Path, control: Stack, candidate: Stack) -> None:
    assert session(tmp_path, control, candidate, "VLLM_A").judge().row(NAME).word is Word.NOTE


def test_variables_that_the_engine_lists_pass(tmp_path: Path) -> None:
    assert session(tmp_path, arm({}), arm({"VLLM_KNOWN": "1"})).judge().row(NAME).word is Word.PASS


def test_an_engine_that_names_none_may_not_look(tmp_path: Path) -> None:
    row = Session(tmp_path, candidate=arm({"VLLM_A": "1"})).judge().row(NAME)
    assert (row.word, row.reason.partition(",")[0]) == (
        Word.NOT_TESTED,
        "an arm's engine names no variable that it does not list",
    )


@pytest.mark.parametrize("env", [{}, {"NCCL_PROTO": "LL"}], ids=["none", "of-others"])
def test_stacks_without_such_a_variable_have_no_row(tmp_path: Path, env: dict[str, str]) -> None:
    assert not session(tmp_path, arm({}), arm(env), "VLLM_OF_THE_PROFILE").judge().rows(NAME)
