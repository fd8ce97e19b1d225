"""Kinds of request: what a profile may ask for, and that every shipped one asks for all of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from harness.config.course import LADDER, Course, Rung
from harness.config.kinds import KINDS, RequestKind
from harness.config.load import load_profile
from harness.errors import ConfigError
from harness.paths import PROJECT

SHORT_COURSE = {"cpu-forged-tp2"}
"""Ranks are told apart by it; kinds of request are asked by the others."""
PROFILES = sorted({p.stem for p in (PROJECT / "profiles").glob("*.toml")} - SHORT_COURSE)


def kind(**fields: Any) -> RequestKind:
    return RequestKind.model_validate({"name": "own", **fields})


def covers(ladder: tuple[Rung, ...]) -> set[str]:
    """What a ladder primes, in the words of the issue."""
    found = {f"{r.prompt_tokens}" for r in ladder if r.prompt_tokens >= 2048}
    found |= {"short" for r in ladder if r.prompt_tokens < 128}
    found |= {"seeded" for r in ladder if r.seed is not None and r.temperature and r.top_p == 1}
    found |= {"top-p" for r in ladder if r.top_p < 1 and r.temperature}
    return found | {"several at once" for r in ladder if r.concurrent > 1}


DEFAULT = ["greedy", "seeded", "top-p", "penalties", "logprobs", "n-2", "prompt-logprobs"]
EVERYTHING = {"short", "2048", "8192", "32768", "seeded", "top-p", "several at once"}


def test_a_ladder_that_nobody_wrote_primes_everything() -> None:
    assert covers(LADDER) == EVERYTHING


@pytest.mark.parametrize("smoke", [False, True], ids=["full", "smoke"])
@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_primes_everything_and_asks_for_every_kind(name: str, smoke: bool) -> None:
    course = load_profile(name, smoke=smoke).model.course
    assert covers(course.ladder) >= EVERYTHING
    assert [k.name for k in course.kinds if k.name in DEFAULT] == DEFAULT, "a profile may ask for more, not for less"


def test_prompt_logprobs_are_asked_for_the_longest_context_and_last() -> None:
    last = KINDS[-1]
    assert last.prompt_logprobs is not None
    assert last.prompt_length(32_768, 40_000) == 32_768
    assert all(k.prompt_length(32_768, 40_000) == 64 for k in KINDS[:-1])


@pytest.mark.parametrize(("name", "tokens"), [("rtx5090", 65_536 - 3 - 16), ("rtxpro6000x4", 131_072 - 3 - 16)])
def test_a_profile_of_the_field_asks_once_for_all_that_its_engine_advertises(name: str, tokens: int) -> None:
    profile = load_profile(name).model
    [full] = [k for k in profile.course.kinds if k.prompt_tokens == "limit"]
    assert (full.name, profile.kind_tokens(full)) == ("full-length", tokens), "less 16 of output and 3 of a draft"
    assert profile.course.longest_tokens < tokens, "nothing else of the course is as long"
    assert [k for k in profile.course.kinds if k is not full] == list(KINDS)


def test_a_kind_of_full_length_follows_the_flag_and_needs_it() -> None:
    kinds = ("course.kinds", [{"name": "full", "prompt_tokens": "limit", "output_tokens": 9}], "test")
    profile = load_profile("cpu-forged", overrides=[kinds, ("serve.flags.max-model-len", 40_000, "test")]).model
    assert profile.kind_tokens(profile.course.kinds[0]) == 40_000 - 1 - 9
    with pytest.raises(ConfigError, match=r"kind `full`: .* needs serve.flags.max-model-len as a number"):
        load_profile("cpu-forged", overrides=[kinds, ("serve.flags.max-model-len", "auto", "test")])


def test_a_kind_counts_towards_the_longest_request_of_the_course() -> None:
    course = Course(kinds=(kind(prompt_tokens=50_000, output_tokens=7),))
    assert course.longest_tokens == 50_007
    course = Course(kinds=(kind(prompt_tokens="longest", output_tokens=999),))
    assert course.longest_tokens == 32_768 + 999


def test_a_kind_that_does_not_fit_is_refused_before_anything_is_started() -> None:
    kinds = [{"name": "own", "prompt_tokens": 33_270}]
    with pytest.raises(ConfigError, match="below the longest request of the course and its draft"):
        load_profile("cpu-forged", overrides=[("course.kinds", kinds, "test")])


def test_several_greedy_sequences_are_refused_as_vllm_refuses_them() -> None:
    with pytest.raises(ValidationError, match="n = 2 needs a temperature above 0"):
        kind(n=2)
    assert kind(n=2, temperature=0.1).n == 2


def test_two_kinds_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="kinds names something twice: own, own"):
        Course(kinds=(kind(), kind(seed=1)))


@pytest.mark.parametrize(
    "fields", [{"prompt_tokens": "shortest"}, {"prompt_tokens": 0}, {"logprobs": 21}, {"top_p": 0}, {"unknown": 1}]
)
def test_what_no_server_takes_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**fields)
