"""Prompts: as long as asked, the same everywhere, and no two alike."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.client.prompts import PromptKey, prompt_ids, prompt_sha256
from harness.paths import PROJECT
from harness.words import Step

KEY = PromptKey(seed=7, step=Step.PREFILL, context_tokens=2048, pass_number=0, index=0)

keys = st.builds(
    PromptKey,
    seed=st.integers(0, 2**63),
    step=st.sampled_from(Step),
    context_tokens=st.sampled_from([0, 2048, 32768]),
    pass_number=st.integers(0, 50),
    index=st.integers(0, 50),
)


@given(keys, st.integers(1, 300), st.integers(1, 200_000))
def test_length_and_range_are_exact(key: PromptKey, tokens: int, below: int) -> None:
    ids = prompt_ids(key, tokens, below)
    assert len(ids) == tokens
    assert all(type(token) is int and 0 <= token < below for token in ids)


@pytest.mark.parametrize("tokens", [2048, 32768, 131072])
def test_long_prompts_are_exact_too(tokens: int) -> None:
    ids = prompt_ids(KEY, tokens, 1000)
    assert len(ids) == tokens
    assert set(ids) <= set(range(1000))


def test_a_known_prompt_never_changes() -> None:
    # Pinned: another derivation would make old and new bundles incomparable without a word.
    assert prompt_ids(KEY, 16, 1000) == [
        869, 817, 267, 650, 167, 135, 409, 553, 886, 134, 160, 621, 265, 930, 117, 468
    ]  # fmt: skip
    known = "7a1b3ce033bdb72f59e16ca1a2d1a5396060147103cd62135052f06268480a8c"
    assert prompt_sha256(prompt_ids(KEY, 2048, 1000)) == known


def test_a_longer_prompt_begins_like_the_shorter_one() -> None:
    assert prompt_ids(KEY, 100, 1000)[:10] == prompt_ids(KEY, 10, 1000)


@given(keys, keys, st.integers(128, 200_000))
def test_different_keys_differ_within_the_first_block(one: PromptKey, other: PromptKey, below: int) -> None:
    same = prompt_ids(one, 16, below) == prompt_ids(other, 16, below)
    assert same == (one == other)


@pytest.mark.parametrize(
    "change",
    [
        lambda k: PromptKey(k.seed + 1, k.step, k.context_tokens, k.pass_number, k.index),
        lambda k: PromptKey(k.seed, Step.DECODE, k.context_tokens, k.pass_number, k.index),
        lambda k: PromptKey(k.seed, k.step, 32768, k.pass_number, k.index),
        lambda k: PromptKey(k.seed, k.step, k.context_tokens, 1, k.index),
        lambda k: PromptKey(k.seed, k.step, k.context_tokens, k.pass_number, 1),
    ],
    ids=["seed", "step", "context", "pass", "index"],
)
def test_every_part_of_the_key_counts(change: Callable[[PromptKey], PromptKey]) -> None:
    assert prompt_ids(change(KEY), 16, 128) != prompt_ids(KEY, 16, 128)


def test_another_process_derives_the_same_prompt() -> None:
    code = (
        "from harness.client.prompts import *; from harness.words import Step;"
        "print(prompt_sha256(prompt_ids(PromptKey(7, Step.PREFILL, 2048, 0, 0), 500, 151_000)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env={"PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == prompt_sha256(prompt_ids(KEY, 500, 151_000))


@pytest.mark.parametrize(("tokens", "below"), [(0, 100), (-1, 100), (5, 0)])
def test_a_prompt_that_cannot_be_is_refused(tokens: int, below: int) -> None:
    with pytest.raises(ValueError, match="a prompt needs tokens >= 1 and below >= 1"):
        prompt_ids(KEY, tokens, below)
