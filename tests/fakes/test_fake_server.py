"""The fake without faults: the answers, shapes, counters and log of vLLM 0.32.0."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from harness.forge.arithmetic import Rule
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from tests.fakes.fake_process import MTP, Fake, fake


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return Recipe()


@pytest.fixture(scope="module")
def rule(recipe: Recipe) -> Rule:
    return recipe.rule


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, recipe: Recipe) -> Path:
    return forge(tmp_path_factory.mktemp("fakes") / "model", recipe)


@pytest.fixture(scope="module")
def mtp(model: Path) -> Iterator[Fake]:
    with fake(model, *MTP, "--max-model-len", "4096") as server:
        yield server


@pytest.fixture(scope="module")
def plain(model: Path) -> Iterator[Fake]:
    with fake(model) as server:
        yield server


@pytest.mark.parametrize("draft_tokens", [0, 1])
def test_output_follows_the_rule_with_and_without_drafts(plain: Fake, mtp: Fake, rule: Rule, draft_tokens: int) -> None:
    prompt = [7, 3, 99]
    body = (mtp if draft_tokens else plain).complete(prompt, 200).json()

    choice = body["choices"][0]
    assert tuple(choice["token_ids"]) == rule.expected(prompt, 200).output_ids
    assert choice["prompt_token_ids"] == prompt
    assert choice["text"] == " ".join(f"w{t}" for t in choice["token_ids"])
    assert choice["finish_reason"] == "length"
    assert {k: v for k, v in body["usage"].items() if v is not None} == {
        "prompt_tokens": 3,
        "total_tokens": 203,
        "completion_tokens": 200,
    }


def test_stream_with_drafts_delivers_one_or_two_tokens_a_chunk_and_counts_them(mtp: Fake, rule: Rule) -> None:
    prompt = [5, 6]
    stream = mtp.stream(prompt, 101)
    expected = rule.expected(prompt, 101, draft_tokens=1)

    assert stream.done
    assert tuple(stream.ids) == expected.output_ids
    sizes = [len(chunk) for chunk in stream.chunk_ids]
    assert sizes[0] == 1
    assert set(sizes) == {1, 2}
    assert len(sizes) == 1 + expected.drafts
    assert stream.finish_reasons == [None] * expected.drafts + ["length"]
    assert [e["usage"]["completion_tokens"] for e in stream.events[:-1]] == [
        sum(sizes[: i + 1]) for i in range(len(sizes))
    ]
    assert stream.events[-1]["choices"] == []
    assert stream.events[-1]["usage"] == {"prompt_tokens": 2, "total_tokens": 103, "completion_tokens": 101}
    text = "".join(e["choices"][0]["text"] for e in stream.events[:-1])
    assert text == " ".join(f"w{t}" for t in expected.output_ids)


def test_stream_without_drafts_delivers_one_token_a_chunk(plain: Fake, rule: Rule) -> None:
    stream = plain.stream([1, 2], 30)
    assert stream.chunk_ids == [[t] for t in rule.expected([1, 2], 30).output_ids]


def test_a_prompt_of_one_token_is_served(mtp: Fake, rule: Rule) -> None:
    assert mtp.ids([9], 3) == list(rule.expected([0, 9], 3).output_ids)


def test_counters_move_by_the_arithmetic(mtp: Fake, rule: Rule) -> None:
    before = mtp.samples()
    asked = [([1, 2, 3], 1), ([4, 5], 2), ([6, 7], 64), (list(range(100)), 65)]
    for prompt, length in asked:
        mtp.stream(prompt, length)
    delta = {name: value - before[name] for name, value in mtp.samples().items()}

    expected = [rule.expected(prompt, length, draft_tokens=1) for prompt, length in asked]
    drafts, accepted = sum(e.drafts for e in expected), sum(e.accepted for e in expected)
    assert delta["vllm:prompt_tokens_total"] == 107
    assert delta["vllm:generation_tokens_total"] == 132
    assert delta["vllm:prefix_cache_queries_total"] == 107
    assert delta["vllm:prefix_cache_hits_total"] == 0
    assert delta["vllm:request_success_total:length"] == len(asked)
    assert delta["vllm:request_success_total:abort"] == 0
    assert delta["vllm:num_preemptions_total"] == 0
    assert delta["vllm:spec_decode_num_drafts_total"] == drafts
    assert delta["vllm:spec_decode_num_draft_tokens_total"] == drafts
    assert delta["vllm:spec_decode_num_accepted_tokens_total"] == accepted
    assert delta["vllm:spec_decode_num_accepted_tokens_per_pos_total:0"] == accepted
    assert len(asked) + drafts + accepted - sum(e.trimmed for e in expected) == 132


def test_metrics_carry_vllms_labels_and_cache_configuration(mtp: Fake, plain: Fake) -> None:
    response = mtp.get("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    assert 'vllm:prompt_tokens_total{engine="0",model_name="tiny"} ' in response.text
    assert re.search(r'vllm:cache_config_info\{.*kv_cache_max_concurrency="512.0"', response.text)
    assert re.search(r'\{block_size="128",.*kv_cache_size_tokens="2097152",.*num_gpu_blocks="16384"', response.text)
    samples = mtp.samples()
    assert samples["vllm:num_requests_running"] == samples["vllm:num_requests_waiting"] == 0
    assert abs(samples["process_start_time_seconds"] - time.time()) < 60
    assert samples["process_resident_memory_bytes"] > 1 << 20
    assert not any("spec_decode" in name for name in plain.samples())


def test_large_counts_are_written_with_an_exponent_that_parses(model: Path) -> None:
    prompt = [1] * 40_000
    with fake(model) as server:
        for _ in range(26):
            server.complete(prompt, 1)
        assert 'prompt_tokens_total{engine="0",model_name="tiny"} 1.04e+06' in server.get("/metrics").text
        assert server.samples()["vllm:prompt_tokens_total"] == 26 * 40_000


def test_one_connection_serves_many_requests_and_many_connections_run_at_once(plain: Fake, rule: Rule) -> None:
    with requests.Session() as session:
        for token in range(20):
            body = {"prompt": [0, token], "max_tokens": 4, "return_token_ids": True}
            answer = session.post(f"{plain.url}/v1/completions", json=body, timeout=5).json()
            assert tuple(answer["choices"][0]["token_ids"]) == rule.expected([0, token], 4).output_ids
    before = plain.samples()["vllm:generation_tokens_total"]
    with ThreadPoolExecutor(8) as pool:
        streams = list(pool.map(lambda t: plain.stream([0, t], 50).ids, range(16)))
    assert streams == [list(rule.expected([0, t], 50).output_ids) for t in range(16)]
    assert plain.samples()["vllm:generation_tokens_total"] - before == 16 * 50


def test_the_log_has_vllms_lines_in_order_and_the_jit_monitor_only_when_asked(mtp: Fake, model: Path) -> None:
    stamp = r"\d\d-\d\d \d\d:\d\d:\d\d"
    api, core, worker = (rf"\({name} pid=\d+\) INFO {stamp} " for name in ("APIServer", "EngineCore", "Worker"))
    speculative = "'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 1}, 'max_model_len': 4096"
    banner = r"Initializing a V1 LLM engine \(v0.32.0\) with config: model='.*', speculative_config=SpeculativeConfig\("
    room = "CPU KV cache size: 2,097,152 tokens, Maximum concurrency for 4,096 tokens per request: 512.00x$"
    lines = [
        rf"{api}\[api_utils.py:286\] non-default args: {{'model_tag': .*{speculative}",
        rf"{core}\[core.py:133\] {banner}method='mtp', .*max_seq_len=4096",
        rf"{worker}\[default_loader.py:501\] Loading weights took 0.01 seconds$",
        rf"{core}\[kv_cache_utils.py:2327\] {room}",
        rf"{core}\[core.py:402\] init engine \(profile, create kv cache, warmup model\) took \d.\d\d s$",
        "INFO:     Application startup complete.$",
    ]
    log = iter(mtp.log.splitlines())
    for line in lines:
        assert any(re.match(line, logged) for logged in log), f"not there, or not in order: {line}"
    assert "JIT monitor" not in mtp.log
    with fake(model, QUALIFY_FAKE_JIT_MONITOR="1", QUALIFY_FAKE_KV_TOKENS="40960") as server:
        assert re.search(
            rf"^\(Worker pid=\d+\) INFO {stamp} \[jit_monitor.py:\d+\] Kernel JIT monitor activated; monitored JIT "
            "compilations during inference will use mode=warn.$",
            server.log,
            re.MULTILINE,
        )
        assert (
            "CPU KV cache size: 40,960 tokens, Maximum concurrency for 40,960 tokens per request: 1.00x" in server.log
        )


def test_requests_are_in_the_access_log(plain: Fake) -> None:
    plain.get("/version")
    plain.wait_for_log('"GET /version HTTP/1.1" 200 OK')


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_also_with_a_request_running(model: Path, number: signal.Signals) -> None:
    with fake(model, QUALIFY_FAKE_STEP_S="5") as server, ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.stream, [1, 2], 10)
        server.wait_for_log("POST /v1/completions")
        server.process.send_signal(number)
        assert server.wait_for_exit() == 0
        assert not running.result().done
        assert "[shutdown] API server: shutdown triggered" in server.log
        assert server.log.endswith(f"Finished server process [{server.process.pid}]\n")


def test_a_signal_ends_it_while_it_starts(model: Path) -> None:
    with fake(model, ready=False, QUALIFY_FAKE_START_S="60") as server:
        server.wait_for_log("non-default args")
        with pytest.raises(requests.ConnectionError):
            server.get("/health")
        assert server.stop() == 0


def test_pace_is_that_of_the_environment(model: Path) -> None:
    begin = time.monotonic()
    with fake(
        model, QUALIFY_FAKE_START_S="0.4", QUALIFY_FAKE_PREFILL_TOK_S="5000", QUALIFY_FAKE_STEP_S="0.01"
    ) as server:
        assert 0.4 <= time.monotonic() - begin < 10
        begin = time.monotonic()
        server.complete([1] * 1000, 21)
        assert 0.2 + 20 * 0.01 <= time.monotonic() - begin < 10


def test_it_starts_without_heavy_imports() -> None:
    code = "import sys, harness.fakes.__main__; print(*{'numpy', 'pandas', 'pydantic', 'requests'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_taken_port_ends_it(model: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with fake(model, "--port", str(taken.getsockname()[1]), ready=False) as server:
            assert server.wait_for_exit() == 1
            assert "Address already in use" in server.log


def test_a_folder_that_is_no_forged_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with fake(tmp_path / "empty", "--max-model-len", "2048", ready=False) as server:
        assert server.wait_for_exit() == 2
        assert "holds no truth.json" in server.log
