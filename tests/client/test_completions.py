"""One streamed completion against the fake: what came back, when, and what every fault becomes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from harness.client.asks import Ask, Sampling
from harness.client.completions import Answer, complete
from harness.client.prompts import PromptKey, prompt_ids
from harness.forge.arithmetic import Rule
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from harness.launch.ports import free_port
from harness.words import Step
from tests.fakes.fake_process import MTP, Fake, fake

PROMPT = [3, 4]
LENGTH = 12


@pytest.fixture(scope="module")
def rule() -> Rule:
    return Recipe().rule


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("client") / "model", Recipe())


@pytest.fixture(scope="module")
def plain(model: Path) -> Iterator[Fake]:
    with fake(model, "--max-model-len", "131200") as server:
        yield server


@pytest.fixture(scope="module")
def mtp(model: Path) -> Iterator[Fake]:
    with fake(model, *MTP) as server:
        yield server


def ask(url: str, prompt: list[int] | None = None, tokens: int = LENGTH, deadline_s: float = 5, **more: Any) -> Answer:
    asked = Ask("tiny", prompt or PROMPT, tokens, "salt", Sampling(**more))
    with requests.Session() as session:
        session.trust_env = False
        return complete(session, url, asked, deadline_s=deadline_s)


def long_prompt(tokens: int) -> list[int]:
    return prompt_ids(PromptKey(1, Step.PREFILL, tokens, 0, 0), tokens, 64)


# --- what comes back ------------------------------------------------------------------------------------


def test_a_plain_answer_is_the_models_one_token_an_event(plain: Fake, rule: Rule) -> None:
    answer = ask(plain.url)
    assert answer.token_ids == rule.expected(PROMPT, LENGTH).output_ids
    assert answer.text == " ".join(f"w{token}" for token in answer.token_ids)
    assert (answer.status, answer.error, answer.finish_reason) == (200, None, "length")
    assert (answer.prompt_tokens, answer.completion_tokens) == (2, LENGTH)
    assert answer.event_tokens == (1,) * LENGTH
    assert answer.top_logprobs == ()


def test_with_drafts_the_tokens_of_an_event_are_counted_by_their_ids(mtp: Fake, rule: Rule) -> None:
    answer = ask(mtp.url, tokens=101)
    expected = rule.expected(PROMPT, 101, draft_tokens=1)
    assert answer.token_ids == expected.output_ids
    assert set(answer.event_tokens) == {1, 2}
    assert len(answer.event_tokens) == len(answer.event_ns) == 1 + expected.drafts
    assert sum(answer.event_tokens) == answer.completion_tokens == 101


def test_logprobs_are_those_of_every_token(mtp: Fake) -> None:
    answer = ask(mtp.url, tokens=20, logprobs=2)
    assert len(answer.top_logprobs) == 20
    for best, second in (list(top.values()) for top in answer.top_logprobs):
        assert best is not None
        assert second is not None
        assert second < best <= 0


def test_one_session_serves_many_requests(plain: Fake) -> None:
    with requests.Session() as session:
        answers = [complete(session, plain.url, Ask("tiny", PROMPT, 3, "s"), deadline_s=5) for _ in range(5)]
    assert {answer.error for answer in answers} == {None}


# --- when -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [32_768, 131_072])
def test_a_long_body_is_sent_after_the_begin_and_before_the_answer(plain: Fake, tokens: int) -> None:
    before = time.monotonic_ns()
    answer = ask(plain.url, long_prompt(tokens), 4, deadline_s=20)
    assert answer.error is None
    assert answer.prompt_tokens == tokens
    assert answer.sent_ns is not None
    times = [before, answer.begin_ns, answer.sent_ns, *answer.event_ns, answer.end_ns, time.monotonic_ns()]
    assert times == sorted(times)
    assert answer.begin_ns < answer.sent_ns < answer.event_ns[0]


def test_events_are_stamped_as_they_arrive(model: Path) -> None:
    with fake(model, QUALIFY_FAKE_STEP_S="0.02", QUALIFY_FAKE_PREFILL_TOK_S="1000") as server:
        answer = ask(server.url, [1] * 100, 6)
    assert answer.sent_ns is not None
    assert answer.event_ns[0] - answer.sent_ns >= 0.1e9
    assert answer.event_ns[-1] - answer.event_ns[0] >= 5 * 0.015e9


# --- every fault is an error or an incomplete record, never an exception --------------------------------


def test_nobody_listens() -> None:
    answer = ask(f"http://127.0.0.1:{free_port()}")
    assert answer.error is not None
    assert answer.error.startswith("ConnectionError")
    assert (answer.status, answer.sent_ns, answer.token_ids, answer.event_ns) == (None, None, (), ())


def test_a_server_that_dies_of_it(model: Path) -> None:
    with fake(model, faults="die-at-first-request") as server:
        answer = ask(server.url)
    assert answer.error is not None
    assert (answer.status, answer.token_ids) == (None, ())


def test_a_refused_request_tells_why(plain: Fake) -> None:
    answer = ask(plain.url, [10**6])
    assert answer.status == 400
    assert answer.error is not None
    assert answer.error.startswith("HTTP 400: ")
    assert "out of vocabulary" in answer.error


def test_an_answer_that_hangs_ends_at_the_deadline_with_what_had_come(model: Path, rule: Rule) -> None:
    with fake(model, faults="hang") as server:
        begin = time.monotonic()
        answer = ask(server.url, deadline_s=0.4)
        assert 0.4 <= time.monotonic() - begin < 10
    assert answer.error == "not finished within 0.4 s"
    assert answer.token_ids == rule.expected(PROMPT, 1).output_ids
    assert (answer.status, answer.finish_reason) == (200, None)


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ("drop-mid-stream", "ChunkedEncodingError: "),
        ("error-event", "error event: "),
        ("http-500=1", "HTTP 500: "),
    ],
)
def test_an_answer_that_breaks_says_how(model: Path, rule: Rule, faults: str, error: str) -> None:
    with fake(model, faults=faults) as server:
        answer = ask(server.url)
    assert answer.error is not None
    assert answer.error.startswith(error)
    assert answer.finish_reason is None
    assert answer.token_ids == rule.expected(PROMPT, LENGTH).output_ids[: len(answer.token_ids)]
    assert len(answer.token_ids) == sum(answer.event_tokens) < LENGTH


def test_usage_that_counts_one_too_many_does_not_change_what_was_received(model: Path) -> None:
    with fake(model, faults="wrong-usage") as server:
        answer = ask(server.url)
    assert answer.completion_tokens == LENGTH + 1
    assert sum(answer.event_tokens) == len(answer.token_ids) == len(answer.event_ns) == LENGTH


def test_an_output_that_stops_short_says_so(model: Path) -> None:
    with fake(model, faults="short-output") as server:
        answer = ask(server.url)
    assert answer.error is None
    assert answer.finish_reason == "stop"
    assert len(answer.token_ids) == answer.completion_tokens == LENGTH - 1


@pytest.mark.parametrize("faults", ["nan-logprobs", "null-logprobs"])
def test_logprobs_that_are_no_numbers_are_unknown(model: Path, faults: str) -> None:
    with fake(model, faults=faults) as server:
        answer = ask(server.url, logprobs=2)
    assert answer.error is None
    assert len(answer.top_logprobs) == LENGTH
    assert {value for top in answer.top_logprobs for value in top.values()} == {None}


# --- what is asked --------------------------------------------------------------------------------------


def test_everything_that_a_servers_defaults_could_change_is_sent() -> None:
    body = json.loads(Ask("m", [1, 2], 5, "salt").body())
    assert body["prompt"] == [1, 2]
    assert (body["max_tokens"], body["ignore_eos"], body["n"]) == (5, True, 1)
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"]) == (0.0, 1.0, -1, 0.0)
    assert (body["repetition_penalty"], body["presence_penalty"], body["frequency_penalty"]) == (1.0, 0.0, 0.0)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert body["return_token_ids"] is True
    assert body["cache_salt"] == "salt"
    assert not {"seed", "logprobs"} & body.keys()


def test_only_what_is_not_greedy_and_plain_counts_as_sampling() -> None:
    assert Sampling().set_apart() == {}
    given = Sampling(temperature=0.7, top_p=0.9, seed=3, logprobs=2, n=2)
    assert given.set_apart() == {"temperature": 0.7, "top_p": 0.9, "seed": 3, "logprobs": 2, "n": 2}
    sampled = Ask("m", [1], 5, "s", given)
    assert math.isclose(json.loads(sampled.body())["temperature"], 0.7)
