"""Kinds of request: several sequences, prompt logprobs and penalties, counted and recorded right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from harness.client.asks import Ask, Sampling
from harness.client.completions import Answer, complete
from harness.config.kinds import KINDS, RequestKind
from harness.evidence.bundle import LaunchDir, read_lines
from harness.forge.arithmetic import Rule
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from harness.judge.read import read_launch
from harness.records import OutputRecord
from harness.session.asking import Asker, Wanted
from harness.words import Step
from tests.client.raw_server import raw_server, respond, stream
from tests.fakes.fake_process import MTP, Fake, fake

PROMPT = [3, 4, 5, 9]
LENGTH = 12
TWO = Sampling(temperature=1.0, seed=7, n=2)


@pytest.fixture(scope="module")
def rule() -> Rule:
    return Recipe().rule


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("kinds") / "model", Recipe())


@pytest.fixture(scope="module", params=["mtp0", "mtp1"])
def server(model: Path, request: pytest.FixtureRequest) -> Iterator[Fake]:
    with fake(model, *(MTP if request.param == "mtp1" else ())) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> LaunchDir:
    (tmp_path / "007-control").mkdir()
    return LaunchDir(tmp_path / "007-control")


def ask(url: str, sampling: Sampling, prompt: list[int] | None = None, deadline_s: float = 10) -> Answer:
    with requests.Session() as session:
        session.trust_env = False
        return complete(session, url, Ask("tiny", prompt or PROMPT, LENGTH, "salt", sampling), deadline_s=deadline_s)


# --- several sequences -----------------------------------------------------------------------------------


def test_each_of_several_sequences_is_whole_and_all_their_tokens_are_counted(server: Fake, rule: Rule) -> None:
    answer = ask(server.url, TWO)
    expected = rule.expected(PROMPT, LENGTH).output_ids
    assert answer.error is None
    assert [s.token_ids for s in answer.sequences] == [expected, expected]
    assert [s.finish_reason for s in answer.sequences] == ["length", "length"]
    assert sum(answer.event_tokens) == answer.completion_tokens == 2 * LENGTH
    assert answer.prompt_tokens == len(PROMPT)


def test_events_of_several_sequences_are_kept_apart_by_their_index() -> None:
    def choice(index: int, ids: list[int], reason: str | None = None) -> dict[str, object]:
        return {"index": index, "token_ids": ids, "text": "".join(map(str, ids)), "finish_reason": reason}

    events = [
        {"choices": [choice(1, [7])]},
        {"choices": [choice(0, [1, 2])]},
        {"choices": [choice(1, [8], "stop"), choice(0, [3], "length")]},
        {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 5}},
    ]
    data = [*(json.dumps(e).encode() for e in events), b"[DONE]"]
    with raw_server(lambda connection: stream(connection, data)) as server:
        answer = ask(server.url, TWO)
    assert [(s.token_ids, s.text, s.finish_reason) for s in answer.sequences] == [
        ((1, 2, 3), "123", "length"),
        ((7, 8), "78", "stop"),
    ]
    assert answer.event_tokens == (1, 2, 2)
    assert answer.completion_tokens == 5


def test_the_server_counts_each_sequence_as_a_request(folder: LaunchDir, server: Fake) -> None:
    client = Asker(folder, server.url, "tiny", seed=1, ids_below=64, deadline_s=10)
    [(request, output)] = client.ask(Step.REQUEST_KINDS, [Wanted(50, 20, TWO)], context_tokens=None, pass_number=0)
    assert request.complete
    assert (request.sequences, request.asked_tokens, request.all_asked_tokens) == (2, 20, 40)
    written = list(read_lines(folder.outputs_file, OutputRecord))
    assert [(o.request, o.sequence, len(o.token_ids)) for o in written] == [("0001", 0, 20), ("0001", 1, 20)]
    evidence = read_launch(folder)
    [window] = evidence.windows
    assert window.counted("requests") == 2
    assert window.counted("prompt_tokens") == 100
    assert window.miscounted is None
    assert evidence.outputs == {"0001": output}


def test_one_sequence_that_stops_short_makes_the_request_incomplete(folder: LaunchDir, model: Path) -> None:
    with fake(model, faults="short-output") as server:
        client = Asker(folder, server.url, "tiny", seed=1, ids_below=64, deadline_s=10)
        [(request, _)] = client.ask(Step.REQUEST_KINDS, [Wanted(5, 8, TWO)], context_tokens=None, pass_number=0)
    assert request.finish_reason == "stop"
    assert not request.complete


# --- prompt logprobs -------------------------------------------------------------------------------------


def test_prompt_logprobs_come_in_one_piece_and_are_those_of_the_prompts_own_tokens(server: Fake, rule: Rule) -> None:
    prompt = [3, rule.successor[3], 60, 61]
    answer = ask(server.url, Sampling(prompt_logprobs=1), prompt)
    assert answer.error is None
    assert answer.token_ids == rule.expected(prompt, LENGTH).output_ids
    assert (answer.event_tokens, answer.completion_tokens) == ((LENGTH,), LENGTH)
    assert answer.prompt_logprobs is not None
    best, *others = answer.prompt_logprobs
    assert len(others) == 2
    assert best is not None
    assert best > -0.5
    assert all(value is not None and value < -5 for value in others)


def test_a_request_for_prompt_logprobs_is_complete_only_with_a_number_for_every_token_but_the_first(
    folder: LaunchDir, model: Path
) -> None:
    wanted = Wanted(50, 4, Sampling(prompt_logprobs=1))
    with fake(model, faults="null-logprobs@2") as server:
        client = Asker(folder, server.url, "tiny", seed=1, ids_below=64, deadline_s=10)
        (whole, _), (broken, _) = client.ask(Step.REQUEST_KINDS, [wanted] * 2, context_tokens=None, pass_number=0)
    assert (whole.prompt_logprobs, whole.complete) == (49, True)
    assert (broken.prompt_logprobs, broken.complete) == (0, False)
    assert not whole.model_copy(update={"prompt_logprobs": None}).complete


def test_a_server_that_sends_no_prompt_logprobs_has_sent_none() -> None:
    choice = {"index": 0, "token_ids": [1, 2], "text": "ab", "finish_reason": "length"}
    body = {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    with raw_server(lambda connection: respond(connection, 200, json.dumps(body).encode())) as server:
        answer = ask(server.url, Sampling(prompt_logprobs=1))
    assert (answer.error, answer.token_ids, answer.prompt_logprobs) == (None, (1, 2), None)


@pytest.mark.parametrize("faults", ["drop-mid-stream", "error-event", "http-500=1", "hang"])
def test_a_body_that_breaks_is_an_error_and_no_exception(model: Path, faults: str) -> None:
    with fake(model, faults=faults) as server:
        answer = ask(server.url, Sampling(prompt_logprobs=1), deadline_s=1)
    assert answer.error is not None
    assert answer.sequences == ()


# --- all of them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_sent_as_it_is_named_and_served(server: Fake, folder: LaunchDir, kind: RequestKind) -> None:
    sampling = Sampling.of(kind)
    body = json.loads(Ask("m", [1, 2], 5, "salt", sampling).body())
    assert body.items() >= sampling.set_apart().items()
    client = Asker(folder, server.url, "tiny", seed=1, ids_below=64, deadline_s=10)
    wanted = Wanted(kind.prompt_length(2048, 4096), kind.output_tokens, sampling, kind=kind.name)
    [(request, _)] = client.ask(Step.REQUEST_KINDS, [wanted], context_tokens=None, pass_number=0)
    assert request.complete
    assert request.kind == kind.name
    assert request.sampling == sampling.set_apart()
    [window] = read_launch(folder).windows
    assert window.miscounted is None
