"""What the fake is told to be, it is: queue, pace, events, chats, and the log of each version."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from harness.client.asks import Ask
from harness.client.chats import ChatAsk
from harness.client.completions import complete
from harness.client.transport import CHAT_COMPLETIONS, open_session
from harness.fakes.eras import ERAS, Era
from harness.fakes.folder import write_rule_folder
from harness.forge.arithmetic import Rule
from harness.forge.recipe import Recipe
from harness.observe import prometheus
from harness.observe.log import Kind, events
from tests.fakes.fake_process import MTP, Fake, fake

RECIPE = Recipe(max_context=65_536)


@pytest.fixture(scope="module")
def rule() -> Rule:
    return RECIPE.rule


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rule_folder(tmp_path_factory.mktemp("truths") / "model", RECIPE)


@pytest.fixture(scope="module")
def mtp(model: Path) -> Iterator[Fake]:
    with fake(model, *MTP) as server:
        yield server


# --- queue --------------------------------------------------------------------------------------------


def test_more_requests_than_slots_wait_and_the_histograms_tell_both_phases(model: Path) -> None:
    with fake(model, "--max-num-seqs", "2", QUALIFY_FAKE_STEP_S="0.05") as server:
        with ThreadPoolExecutor(4) as pool:
            pending = [pool.submit(server.ids, [1, 2, n], 20) for n in range(4)]
            seen = []
            while not all(p.done() for p in pending):
                scrape = prometheus.parse(server.get("/metrics").text)
                seen.append((scrape.running, scrape.waiting))
        assert (2, 2) in seen
        assert max(running or 0 for running, _ in seen) == 2
        scrape = prometheus.parse(server.get("/metrics").text)
        assert (scrape.running, scrape.waiting) == (0, 0)
        # Two of the four waited for the 19 steps of the other two, less the time by which they came later.
        assert scrape.seconds["queue"] >= 2 * 19 * 0.05 / 2
        assert scrape.seconds["service"] >= 4 * 19 * 0.05
        text = server.get("/metrics").text
    assert 'vllm:request_queue_time_seconds_bucket{engine="0",le="+Inf",model_name="tiny"} 4.0' in text
    assert 'vllm:request_queue_time_seconds_count{engine="0",model_name="tiny"} 4.0' in text


# --- times and events ---------------------------------------------------------------------------------


def test_the_first_token_waits_as_long_as_it_is_told(model: Path) -> None:
    with fake(model, QUALIFY_FAKE_TTFT_S="0.1", QUALIFY_FAKE_PREFILL_TOK_S="1000") as server:
        begin = time.monotonic()
        server.ids([1] * 100, 1)
        assert time.monotonic() - begin >= 0.2


def test_stamps_tell_when_a_request_had_come_and_each_event_went(model: Path) -> None:
    with fake(model, QUALIFY_FAKE_STAMPS="1", QUALIFY_FAKE_STEP_S="0.01") as server:
        before = time.monotonic_ns()
        stream = server.stream([1, 2], 5)
        after = time.monotonic_ns()
    times = [before, stream.events[0]["received_ns"], *(e["sent_ns"] for e in stream.events), after]
    assert times == sorted(times)
    assert len({e["received_ns"] for e in stream.events}) == 1
    assert stream.events[4]["sent_ns"] - stream.events[4]["received_ns"] >= 4 * 0.01e9


def test_an_interval_bundles_the_tokens_of_steps_and_the_first_never_waits(model: Path, rule: Rule) -> None:
    with fake(model, "--stream-interval", "4") as server:
        stream = server.stream([1, 2], 11)
    assert [len(ids) for ids in stream.chunk_ids] == [1, 4, 4, 2]
    assert tuple(stream.ids) == rule.expected([1, 2], 11).output_ids
    assert [e["usage"]["completion_tokens"] for e in stream.events] == [1, 5, 9, 11, 11]


def test_events_may_vary_in_size(model: Path, rule: Rule) -> None:
    with fake(model, faults="vary-chunks") as server:
        stream = server.stream([1, 2], 14)
    assert [len(ids) for ids in stream.chunk_ids] == [1, 2, 3, 1, 2, 3, 1, 1]
    assert tuple(stream.ids) == rule.expected([1, 2], 14).output_ids


# --- chats --------------------------------------------------------------------------------------------


def test_a_chat_is_a_completion_of_its_words(mtp: Fake, rule: Rule) -> None:
    with open_session() as session:
        chat = complete(session, mtp.url, ChatAsk("tiny", "w7 w9", 30, "s"), deadline_s=5, path=CHAT_COMPLETIONS)
        plain = complete(session, mtp.url, Ask("tiny", [7, 9], 30, "s"), deadline_s=5)
    assert chat.error is None
    assert chat.token_ids == plain.token_ids == rule.expected([7, 9], 30).output_ids
    assert (chat.text, chat.reasoning, chat.finish_reason) == (plain.text, "", "length")
    assert (chat.prompt_tokens, chat.completion_tokens) == (2, 30)
    assert chat.event_tokens == plain.event_tokens


def test_the_first_event_of_a_chat_bears_a_role_and_no_token(mtp: Fake) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "w1 w2"}]}], "max_tokens": 3}
    options = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    text = mtp.post("/v1/chat/completions", **body, **options, return_token_ids=True).text
    role, token, *_ = (line.removeprefix("data: ") for line in text.splitlines() if line)
    assert '"object":"chat.completion.chunk"' in role
    assert '"delta":{"role":"assistant","content":""}' in role
    assert '"prompt_token_ids":[1,2]' in role
    assert '"completion_tokens":0' in role
    assert "token_ids" not in role.replace("prompt_token_ids", "")
    assert re.search(r'"delta":\{"content":"w\d+"\}', token)
    assert text.endswith("data: [DONE]\n\n")


def test_a_chat_that_is_not_streamed_is_one_message(mtp: Fake, rule: Rule) -> None:
    body = mtp.post(
        "/v1/chat/completions", messages=[{"role": "user", "content": "w3 w4"}], max_tokens=5, return_token_ids=True
    ).json()
    [choice] = body["choices"]
    assert body["object"] == "chat.completion"
    assert tuple(choice["token_ids"]) == rule.expected([3, 4], 5).output_ids
    assert choice["message"]["content"] == " ".join(f"w{t}" for t in choice["token_ids"])
    assert body["usage"]["completion_tokens"] == 5


def test_a_reasoning_parser_makes_reasoning_of_it(model: Path) -> None:
    with fake(model, "--reasoning-parser", "x") as server, open_session() as session:
        answer = complete(session, server.url, ChatAsk("tiny", "w7", 8, "s"), deadline_s=5, path=CHAT_COMPLETIONS)
    assert answer.error is None
    assert len(answer.reasoning.split()) == 7
    assert len(answer.text.split()) == 1
    assert answer.first_token_ns == answer.event_ns[0]


def test_a_chat_without_messages_is_refused(mtp: Fake) -> None:
    response = mtp.post("/v1/chat/completions", messages=[], max_tokens=3)
    assert response.status_code == 400
    assert "messages" in response.json()["error"]["message"]


# --- faults -------------------------------------------------------------------------------------------


def test_a_slow_death_slows_down_and_then_ends(model: Path) -> None:
    with fake(model, faults="slow-death=2") as server:
        assert len(server.ids([1, 2], 8)) == 8
        stream = server.stream([1, 2], 8)
        assert (len(stream.ids), stream.done) == (4, False)
        assert server.wait_for_exit() == 1
        assert "EngineCore encountered a fatal error" in server.log


def test_a_header_that_never_ends_holds_the_client_until_it_leaves(model: Path) -> None:
    with fake(model, faults="trickle-headers@1") as server, open_session() as session:
        answer = complete(session, server.url, Ask("tiny", [1, 2], 3, "s"), deadline_s=0.3)
        assert answer.error == "not finished within 0.3 s"
        assert answer.token_ids == ()
        assert len(server.ids([1, 2], 3)) == 3


def test_a_preemption_is_counted(model: Path) -> None:
    with fake(model, faults="preempt@2") as server:
        for expected in (0, 1, 1):
            server.ids([1, 2], 3)
            assert server.samples()["vllm:num_preemptions_total"] == expected


def test_torn_lines_leave_the_whole_ones_readable(model: Path) -> None:
    with fake(model, faults="torn-log", QUALIFY_FAKE_KV_TOKENS="40960") as server:
        assert server.stop() == 0
        raw = server.log_file.read_bytes()
    assert b"torn\x1b[0;0m\xff\xfe\n" in raw
    with server.log_file.open("rb") as stream:
        kinds = [e.kind for e in events(stream)]
    assert Kind.KV_TOKENS in kinds


# --- the log of each version --------------------------------------------------------------------------


@contextmanager
def speaking(model: Path, era: Era) -> Iterator[Fake]:
    version, room, armed = era.version, "81920", "1"
    with fake(model, QUALIFY_FAKE_LOG=version, QUALIFY_FAKE_KV_TOKENS=room, QUALIFY_FAKE_JIT_MONITOR=armed) as server:
        yield server


@pytest.mark.parametrize("era", ERAS, ids=lambda e: e.version)
def test_the_log_has_the_forms_of_its_version(model: Path, era: Era) -> None:
    with speaking(model, era) as server:
        assert server.get("/version").json() == {"version": era.version}
        assert server.stop() == 0
        log = server.log
    assert f"Initializing a V1 LLM engine (v{era.version})" in log
    assert ("\x1b[1;36m(APIServer" in log) == era.coloured
    whole = re.sub(r"\x1b\[[0-9;]*m", "", log)
    [ready] = re.findall(r"^(.*)INFO:     Application startup complete\.$", whole, re.MULTILINE)
    assert bool(ready) == (era.prefix == "every line")
    assert bool(re.search(rf"^\({era.engine} pid=\d+\) INFO .*Initializing", whole, re.MULTILINE)) == (
        era.prefix != "none"
    )
    size = "CPU" if era.kv == "by device" else "GPU"
    together = f"{size} KV cache size: 81,920 tokens, Maximum concurrency for 65,536 tokens per request: 1.25x"
    assert (together in whole) == (era.kv != "two lines")
    assert ("Kernel JIT monitor activated" in whole) == (era.jit_monitor is not None)
    assert ("[shutdown] API server" in whole) == era.shutdown


@pytest.mark.parametrize("era", ERAS, ids=lambda e: e.version)
def test_the_observer_reads_the_same_from_every_version(model: Path, era: Era) -> None:
    with speaking(model, era) as server:
        assert server.stop() == 0
    with server.log_file.open("rb") as stream:
        found = list(events(stream))
    kinds = [e.kind for e in found]
    assert kinds.count(Kind.KV_TOKENS) == 1
    assert "81,920 tokens" in next(e.text for e in found if e.kind is Kind.KV_TOKENS)
    assert (Kind.JIT_ARMED in kinds) == (era.jit_monitor is not None)
    assert Kind.ERROR not in kinds


def test_an_unknown_version_is_refused(model: Path) -> None:
    with fake(model, ready=False, QUALIFY_FAKE_LOG="0.1.0") as server:
        assert server.wait_for_exit() == 2
        assert "no log of '0.1.0'; known are 0.8.5, " in server.log


def test_every_real_endpoint_answers(mtp: Fake) -> None:
    for path in ("/health", "/v1/models", "/metrics", "/version"):
        assert mtp.get(path).status_code == requests.codes.ok, path
    assert mtp.post("/tokenize", prompt="w1 w2").json()["tokens"] == [1, 2]
    assert mtp.post("/reset_prefix_cache").json() == {"success": True}
