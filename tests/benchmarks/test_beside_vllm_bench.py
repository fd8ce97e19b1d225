"""What the program beside `vllm bench serve` says of speeds, of the sampler's cost, and of askers that fail."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks import beside_vllm_bench
from benchmarks.askers import AskerFailed, Figures, Scene
from benchmarks.beside_vllm_bench import (
    BEYOND,
    FAILED,
    OURS,
    STOPPED,
    WATCHED,
    Asked,
    Found,
    sampler_cost,
    summary,
    table,
)
from harness.fakes.nvml import VARIABLE, Gpu, Host, write_host
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from harness.paths import PROJECT
from harness.session.visible import GPUS
from tests.benchmarks.stub import stub_python
from tests.containers.waiting import until

SCENE = Scene(16, 4, 2)


def figures(*rates: float, ttft_ms: float = 1.0, whole_ms: float = 1.0) -> Figures:
    decode = statistics.median(rates)
    return Figures(tokens=1, ttft_ms=ttft_ms, whole_ms=whole_ms, prefill=1.0, decode=decode, rates=rates)


def test_a_sampler_that_slows_less_than_requests_differ_is_within_noise() -> None:
    cost, noise = sampler_cost([figures(100.0, 101.0, 99.0)], [figures(99.5, 100.0, 99.0)])
    assert cost == pytest.approx(-0.5)
    assert noise == pytest.approx(2.0)


def test_a_sampler_that_takes_a_tenth_is_beyond_it() -> None:
    cost, noise = sampler_cost([figures(100.0, 101.0)], [figures(90.0, 90.5)])
    assert abs(cost) > noise


def test_rates_of_all_rounds_count() -> None:
    _, noise = sampler_cost([figures(100.0), figures(104.0)], [figures(102.0)])
    assert noise == pytest.approx(100 * 4 / 102)


def test_one_asker_warms_the_server_up_and_nobody_is_asked_the_same_twice(tmp_path: object) -> None:
    asked: list[tuple[str, tuple[tuple[int, ...], ...]]] = []

    def asker(name: str) -> object:
        def ask(_url: str, _scene: Scene, prompts: list[list[int]], _folder: object) -> Figures:
            asked.append((name, tuple(map(tuple, prompts))))
            return figures(1.0)

        return ask

    made = Asked("http://nowhere", {n: asker(n) for n in ("ours", "peer")}, 64, tmp_path)  # type: ignore[misc,arg-type]
    made.rounds(found := Found(SCENE), 2)
    assert [name for name, _ in asked] == ["ours", "peer", "ours", "ours", "peer"]
    assert {name: len(rows) for name, rows in found.rows.items()} == {"ours": 2, "peer": 2}
    assert len({prompt for _, prompts in asked for prompt in prompts}) == 10


def test_who_fails_sits_out_his_scene_and_the_others_go_on(tmp_path: Path) -> None:
    asked = []

    def ours(_url: str, _scene: Scene, _prompts: list[list[int]], _folder: Path) -> Figures:
        asked.append("ours")
        return figures(1.0)

    def peer(_url: str, _scene: Scene, _prompts: list[list[int]], _folder: Path) -> Figures:
        asked.append("peer")
        raise AskerFailed("exit code 1: no tokenizer")

    def odd(_url: str, _scene: Scene, _prompts: list[list[int]], _folder: Path) -> Figures:
        raise KeyError("ttfts")

    made = Asked("http://nowhere", {"ours": ours, "peer": peer, "odd": odd}, 64, tmp_path)
    made.rounds(found := Found(SCENE), 3)
    assert asked == ["ours", "peer", "ours", "ours", "ours"]
    assert list(found.rows) == ["ours"]
    assert found.failed == {"peer": "exit code 1: no tokenizer", "odd": "KeyError: 'ttfts'"}
    made.rounds(Found(SCENE), 1)
    assert asked.count("peer") == 2, "another scene is another chance"


def test_within_the_limit_is_code_0() -> None:
    text, code = summary([Found(SCENE, {OURS: [figures(100.0)], "handler": [figures(101.0)]})])
    assert code == 0
    assert "0.99 %" in text


def test_beyond_the_limit_is_a_finding_with_a_code_of_its_own() -> None:
    _, code = summary([Found(SCENE, {OURS: [figures(100.0)], "handler": [figures(103.0)]})])
    assert code == BEYOND


def test_first_tokens_are_compared_from_where_vllms_clock_begins() -> None:
    """Ours leaves out making JSON of the prompt, connecting and sending it: 1.6 of 54 ms at 2,048 tokens on an H200."""
    ours, tool = figures(100.0, ttft_ms=53.0, whole_ms=54.5), figures(100.0, ttft_ms=55.0, whole_ms=55.0)
    found = Found(SCENE, {OURS: [ours], "handler": [tool]})
    assert found.differences()["handler", "whole_ms"] == pytest.approx(-0.909, abs=0.001)
    assert summary([found])[1] == 0
    assert "| ours | 1 | 1 | 53.00 | 54.50 |" in table(found)
    assert "ours against handler, time from before the JSON to the first token: -0.91 %" in table(found)


def test_a_sampler_beyond_noise_is_a_finding_too() -> None:
    rows = {OURS: [figures(100.0)], WATCHED: [figures(90.0)], "handler": [figures(100.0)]}
    text, code = summary([Found(SCENE, rows)])
    assert code == BEYOND
    assert "the sampler costs" in text


def test_a_peer_that_failed_has_a_code_of_its_own_and_the_rest_is_compared() -> None:
    rows = {OURS: [figures(100.0)], WATCHED: [figures(100.0)], "handler": [figures(103.0)]}
    found = Found(SCENE, rows, {"bench serve": "exit code 1"})
    text, code = summary([found])
    assert code == FAILED
    assert "3 %" not in text
    assert "2.91 %" in text
    assert text.endswith("failed, see above: bench serve")
    assert "sampler on against off, decode: +0.00 %" in table(found)


def test_where_nothing_was_compared_no_difference_is_made_up() -> None:
    text, code = summary([Found(SCENE, {OURS: [figures(100.0)]}, {"handler": "gone", "bench serve": "gone"})])
    assert code == FAILED
    assert "compared with no peer" in text


def test_figures_of_the_others_are_written_where_bench_serve_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was on the H200s: our client, the handler and the sampler worked, vLLM's tool did not."""
    model = forge(tmp_path / "model", Recipe())
    write_host(tmp_path / "nvml", Host(gpus=(Gpu("GPU-0"),)))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nvml"))
    monkeypatch.setenv(GPUS, "GPU-0")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setattr(beside_vllm_bench, "SCENES", (Scene(64, 8, 2), Scene(96, 8, 2), Scene(128, 8, 2)))
    python, out = stub_python(tmp_path, "asserts"), tmp_path / "out.json"
    command = ["beside", "--model", str(model), "--python", python, "--rounds", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [*command, "--prompt-tokens", "64", "128", "--", "--max-model-len", "512"])

    with pytest.raises(SystemExit) as ended:
        beside_vllm_bench.main()

    assert ended.value.code == FAILED
    told = json.loads(out.read_bytes())
    assert [scene["scene"]["prompt_tokens"] for scene in told] == [64, 128]
    for scene in told:
        assert {name: [row["tokens"] for row in rows] for name, rows in scene["rows"].items()} == {
            OURS: [16],
            "handler": [16],
            WATCHED: [16],
        }
        assert list(scene["failed"]) == ["bench serve"]
    printed = capsys.readouterr().out
    assert "Namespace" not in printed
    assert "AssertionError: Tokenizer must be initialized before loading dataset" in printed
    assert "sampler on against off" in printed


def below(pid: int) -> dict[psutil.Process, list[str]]:
    """Processes that were started from there, and what they are called by."""
    found = {}
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found[process] = process.cmdline()
    return found


def test_sigterm_ends_the_server_and_what_was_measured_is_written(tmp_path: Path) -> None:
    """A visit whose time is over, while vLLM's tool hangs after the watched client's turn."""
    model = forge(tmp_path / "model", Recipe())
    write_host(tmp_path / "nvml", Host(gpus=(Gpu("GPU-0"),)))
    own = {VARIABLE: str(tmp_path / "nvml"), GPUS: "GPU-0", "PYTHONPATH": str(PROJECT), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks.beside_vllm_bench", "--model", str(model), "--rounds", "1"]
    command += ["--python", stub_python(tmp_path, "hangs"), "--out", str(tmp_path / "out.json")]
    command += ["--", "--max-model-len", "2560"]
    started: dict[psutil.Process, list[str]] = {}
    with subprocess.Popen(
        command, env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        try:
            until(lambda: any({"bench", "tests.benchmarks.stub_vllm"} <= {*c} for c in below(run.pid).values()), 60)
            started = below(run.pid)
            assert any("harness.fakes" in command for command in started.values())
            run.terminate()
            printed, told = run.communicate(timeout=60)
            left = psutil.wait_procs(list(started), timeout=10)[1]
        finally:
            run.kill()
            for process in started:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
    assert left == []
    assert run.returncode == STOPPED
    assert "Traceback" not in told
    assert f"| {WATCHED} | 1 |" in printed
    (scene,) = json.loads((tmp_path / "out.json").read_bytes())
    assert {name: len(rows) for name, rows in scene["rows"].items()} == {WATCHED: 1}
    assert scene["failed"] == {}, "who was cut off did not fail"
