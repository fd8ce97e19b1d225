"""Each fault does what `--help` says of it, and nothing else."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from harness.forge.arithmetic import Rule
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from tests.fakes.fake_process import DEADLINE_S, MTP, Fake, fake

PROMPT = [3, 4]
LENGTH = 12


@pytest.fixture(scope="module")
def rule() -> Rule:
    return Recipe().rule


@pytest.fixture(scope="module")
def truth(rule: Rule) -> list[int]:
    return list(rule.expected(PROMPT, LENGTH).output_ids)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("faults") / "model", Recipe())


def test_die_at_start(model: Path) -> None:
    with fake(model, faults="die-at-start", ready=False) as server:
        assert server.wait_for_exit() == 1
        assert "\nTraceback (most recent call last):\n" in server.log
        assert "RuntimeError: Engine core initialization failed." in server.log
        assert "KV cache size" not in server.log


@pytest.mark.parametrize(("faults", "served"), [("die-at-first-request", 0), ("die-after=3", 2)])
def test_death_at_a_completion(model: Path, truth: list[int], faults: str, served: int) -> None:
    with fake(model, faults=faults) as server:
        for _ in range(served):
            assert server.ids(PROMPT, LENGTH) == truth
        with pytest.raises(requests.ConnectionError):
            server.complete(PROMPT, LENGTH)
        assert server.wait_for_exit() == 1
        assert re.search(r"EngineCore pid=\d+\) ERROR .* EngineCore encountered a fatal error", server.log)


def test_hang_sends_one_chunk_and_runs_until_the_client_leaves(model: Path, truth: list[int]) -> None:
    with fake(model, faults="hang@1") as server:
        stream = server.stream(PROMPT, LENGTH, timeout_s=0.3)
        assert (stream.ids, stream.done) == (truth[:1], False)
        server_side = wait_for(server, "vllm:request_success_total:abort", 1)
        assert server_side["vllm:num_requests_running"] == 0
        assert server.ids(PROMPT, LENGTH) == truth


def test_a_hanging_request_counts_as_running_and_does_not_keep_the_server_alive(model: Path) -> None:
    with fake(model, faults="hang") as server, ThreadPoolExecutor(1) as pool:
        pending = pool.submit(server.complete, PROMPT, LENGTH)
        wait_for(server, "vllm:num_requests_running", 1)
        assert server.stop() == 0
        assert isinstance(pending.exception(), requests.RequestException)


def test_no_health(model: Path, truth: list[int]) -> None:
    with fake(model, faults="no-health") as server:
        assert server.get("/health").status_code == 503
        assert server.ids(PROMPT, LENGTH) == truth


def test_wrong_model_name(model: Path) -> None:
    with fake(model, faults="wrong-model-name") as server:
        assert server.get("/v1/models").json()["data"][0]["id"] == "wrong-tiny"
        assert server.complete(PROMPT, LENGTH, model="tiny").status_code == 404
        assert 'model_name="wrong-tiny"' in server.get("/metrics").text


def test_ignore_sigterm(model: Path) -> None:
    with fake(model, faults="ignore-sigterm") as server:
        server.process.terminate()
        server.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.3)
        assert server.get("/health").ok
        server.process.kill()
        assert server.wait_for_exit() == -signal.SIGKILL


def test_orphan_worker_outlives_the_server_in_its_session_and_ignores_sigterm(model: Path) -> None:
    with fake(model, faults="orphan-worker") as server:
        match = re.search(r"started VLLM::Worker pid (\d+)", server.log)
        assert match is not None
        worker = int(match[1])
        assert server.stop() == 0
        os.kill(worker, signal.SIGTERM)
        time.sleep(0.1)
        os.kill(worker, 0)
        assert os.getsid(worker) == server.process.pid
        assert b"VLLM::Worker" in Path(f"/proc/{worker}/cmdline").read_bytes()


def test_secret_in_log(model: Path) -> None:
    with fake(model, faults="secret-in-log") as server:
        assert re.search(r"\bHF_TOKEN=hf_[A-Za-z0-9]{34}$", server.log, re.MULTILINE)


def test_wrong_usage(model: Path, truth: list[int]) -> None:
    with fake(model, faults="wrong-usage@1") as server:
        before = server.samples()
        stream = server.stream(PROMPT, LENGTH)
        assert stream.ids == truth
        assert stream.events[-1]["usage"]["completion_tokens"] == LENGTH + 1
        assert stream.events[-1]["usage"]["total_tokens"] == len(PROMPT) + LENGTH + 1
        assert server.samples()["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] == LENGTH
        assert server.complete(PROMPT, LENGTH).json()["usage"]["completion_tokens"] == LENGTH


def test_short_output(model: Path, truth: list[int]) -> None:
    with fake(model, *MTP, faults="short-output") as server:
        stream = server.stream(PROMPT, LENGTH)
        assert stream.done
        assert stream.ids == truth[:-1]
        assert stream.finish_reasons[-1] == "stop"
        assert stream.events[-1]["usage"]["completion_tokens"] == LENGTH - 1
        assert server.samples()["vllm:request_success_total:stop"] == 1
        empty = server.stream(PROMPT, 1)
        assert (empty.ids, empty.finish_reasons, empty.done) == ([], ["stop"], True)


def test_prefix_hits(model: Path) -> None:
    with fake(model, faults="prefix-hits@2") as server:
        server.ids([1] * 50, 1)
        assert server.samples()["vllm:prefix_cache_hits_total"] == 0
        server.ids([1] * 50, 1)
        assert server.samples()["vllm:prefix_cache_hits_total"] == 49


def test_foreign_traffic(model: Path, rule: Rule) -> None:
    with fake(model, *MTP, faults="foreign-traffic") as server:
        server.stream(PROMPT, LENGTH)
        samples = server.samples()
        assert samples["vllm:request_success_total:length"] == 2
        assert samples["vllm:prompt_tokens_total"] > len(PROMPT)
        assert samples["vllm:generation_tokens_total"] > LENGTH
        own = rule.expected(PROMPT, LENGTH, draft_tokens=1)
        assert samples["vllm:spec_decode_num_drafts_total"] > own.drafts
        assert samples["vllm:spec_decode_num_accepted_tokens_total"] == own.accepted


def test_counter_reset(model: Path) -> None:
    with fake(model, faults="counter-reset=2") as server:
        server.ids(PROMPT, LENGTH)
        before = server.samples()
        assert before["vllm:generation_tokens_total"] == LENGTH
        server.stream(PROMPT, LENGTH)
        after = server.samples()
        assert after["vllm:generation_tokens_total"] == after["vllm:request_success_total:length"] == 0
        assert after["vllm:num_requests_running"] == 0
        assert after["process_start_time_seconds"] > before["process_start_time_seconds"]
        server.ids(PROMPT, LENGTH)
        assert server.samples()["vllm:generation_tokens_total"] == LENGTH


def test_metrics_500(model: Path) -> None:
    with fake(model, faults="metrics-500@2") as server:
        assert [server.get("/metrics").status_code for _ in range(3)] == [200, 500, 200]


def test_late_jit_names_the_kernel_once_at_the_first_long_prompt_and_delays_it(model: Path) -> None:
    with fake(model, faults="late-jit=_topk_kernel") as server:
        line = (
            r"^\(Worker pid=\d+\) WARNING \d\d-\d\d \d\d:\d\d:\d\d \[jit_monitor.py:\d+\] Triton kernel JIT "
            r"compilation during inference: _topk_kernel. This causes a latency spike; consider extending warmup to "
            r"cover this shape/config.$"
        )
        server.ids([1] * 1000, 1)
        assert not re.search(line, server.log, re.MULTILINE)
        seconds = []
        for _ in range(2):
            begin = time.monotonic()
            server.ids([1] * 1001, 1)
            seconds.append(time.monotonic() - begin)
        assert len(re.findall(line, server.log, re.MULTILINE)) == 1
        assert seconds[0] >= 0.25 > seconds[1]


@pytest.mark.parametrize("at", [0, 5, LENGTH - 1])
def test_diverge_at(model: Path, truth: list[int], at: int) -> None:
    with fake(model, faults=f"diverge-at={at}@1") as server:
        other = server.ids(PROMPT, LENGTH)
        assert len(other) == LENGTH
        assert first_difference(other, truth) == at
        assert server.ids(PROMPT, LENGTH) == truth


def test_break_tie(tmp_path: Path) -> None:
    recipe = Recipe(near_tie=True)
    assert recipe.tie is not None
    token, runner_up = recipe.tie
    winner = recipe.rule.successor[token]
    with fake(forge(tmp_path / "tied", recipe), faults="break-tie@1") as server:
        broken, right = (server.complete([7, token], 3, logprobs=2).json()["choices"][0] for _ in range(2))
    assert (broken["token_ids"][0], right["token_ids"][0]) == (runner_up, winner)
    assert broken["token_ids"][1:] == list(recipe.rule.expected([runner_up, runner_up], 2).output_ids)
    for choice in (broken, right):
        assert set(choice["logprobs"]["top_logprobs"][0]) == {f"w{winner}", f"w{runner_up}"}


def test_unstable(model: Path, truth: list[int]) -> None:
    with fake(model, faults="unstable") as server:
        answers = [server.ids(PROMPT, LENGTH) for _ in range(4)]
        assert [first_difference(a, truth) for a in answers] == [None, 3, None, 3]
        assert server.ids([*PROMPT, 9], 1) == [Recipe().rule.successor[9]]


def test_http_500(model: Path, truth: list[int]) -> None:
    with fake(model, faults="http-500=2") as server:
        assert server.ids(PROMPT, LENGTH) == truth
        failed = server.complete(PROMPT, LENGTH)
        assert failed.status_code == failed.json()["error"]["code"] == 500
        assert server.ids(PROMPT, LENGTH) == truth
        assert server.samples()["vllm:request_success_total:length"] == 2


def test_drop_mid_stream(model: Path, truth: list[int]) -> None:
    with fake(model, faults="drop-mid-stream") as server:
        stream = server.stream(PROMPT, LENGTH)
        assert not stream.done
        assert stream.ids == truth[: LENGTH // 2]
        assert stream.finish_reasons == [None] * (LENGTH // 2)
        with pytest.raises(requests.RequestException):
            server.complete(PROMPT, LENGTH)


def test_error_event(model: Path, truth: list[int]) -> None:
    with fake(model, faults="error-event") as server:
        stream = server.stream(PROMPT, LENGTH)
        assert stream.ids == truth[: LENGTH // 2]
        assert stream.done
        assert stream.events[-1]["error"]["type"] == "InternalServerError"
        assert "usage" not in stream.events[-1]
        assert server.samples()["vllm:request_success_total:error"] == 1
        assert server.complete(PROMPT, LENGTH).status_code == 500


def test_nan_and_null_logprobs(model: Path, truth: list[int]) -> None:
    with fake(model, faults="nan-logprobs@1,null-logprobs@2") as server:
        nan, null, right = (server.stream(PROMPT, 2, logprobs=2) for _ in range(3))
        assert nan.ids == null.ids == right.ids == truth[:2]
        values = [s.events[0]["choices"][0]["logprobs"] for s in (nan, null, right)]
        assert math.isnan(values[0]["token_logprobs"][0])
        assert all(math.isnan(v) for v in values[0]["top_logprobs"][0].values())
        assert values[1]["token_logprobs"] == [None]
        assert set(values[1]["top_logprobs"][0].values()) == {None}
        assert values[2]["token_logprobs"][0] < 0


def test_clip_output(model: Path, rule: Rule) -> None:
    with fake(model, "--max-model-len", "64", faults="clip-output@1") as server:
        body = server.complete([1] * 60, 10).json()
        assert body["choices"][0]["token_ids"] == list(rule.expected([1, 1], 4).output_ids)
        assert (body["choices"][0]["finish_reason"], body["usage"]["completion_tokens"]) == ("length", 4)
        assert server.complete([1] * 60, 10).status_code == 400


def first_difference(left: list[int], right: list[int]) -> int | None:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b), None)


def wait_for(server: Fake, name: str, value: float) -> dict[str, float]:
    deadline = time.monotonic() + DEADLINE_S
    while (samples := server.samples())[name] != value:
        assert time.monotonic() < deadline, f"{name} is {samples[name]}, not {value}"
        time.sleep(0.01)
    return samples
