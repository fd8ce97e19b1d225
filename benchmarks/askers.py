"""Who asks one server for the same prompts: our client, vLLM's handler in a loop of ours, and `vllm bench serve`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.observe.gpu.watch import GpuSampler

PEERS = Path(__file__).parent / "peers"
SERVED = "forged"
ASKING_S = 300.0
"""A peer that takes longer for one scene hangs."""
SAMPLER_HZ = 20.0
TRACEBACK = "Traceback (most recent call last):"


class AskerFailed(Exception):  # noqa: N818  # reads as what happened
    """An asker has no figures; the message says why in a few lines."""


@dataclass(frozen=True)
class Scene:
    """What is asked: as many requests, one after the other, each with a prompt of its own."""

    prompt_tokens: int
    output_tokens: int
    requests: int


@dataclass(frozen=True)
class Figures:
    """What an asker measured of a scene in one round."""

    tokens: int
    """Delivered, over all requests."""
    ttft_ms: float
    """As the asker counts it. Median over requests, as of the next three."""
    whole_ms: float
    """To the first token from before the request is made JSON: what all askers measure, and vLLM's tool calls TTFT."""
    prefill: float
    """Prompt tokens per second up to the first token."""
    decode: float
    """Tokens per second after the first one."""
    rates: tuple[float, ...]
    """The same of every request."""


Asker = Callable[[str, Scene, list[list[int]], Path], Figures]
"""Asks the server at a URL; the folder takes files. Raises AskerFailed."""


def by_script(python: str, script: Path) -> Asker:
    """A program of ours that prints its requests as JSON, see peers/."""

    def ask(url: str, scene: Scene, prompts: list[list[int]], folder: Path) -> Figures:
        file = folder / "prompts.json"
        file.write_text(json.dumps(prompts), "utf-8")
        done = _call([python, str(script), url, SERVED, "1", str(file), str(scene.output_tokens)])
        asked = json.loads(done.splitlines()[-1])["requests"]
        if failed := [r["error"] for r in asked if r["error"]]:
            raise AskerFailed(reason(failed[0]))
        return _figures(scene, *([r[of] for r in asked] for of in ("tokens", "ttft_ms", "whole_ms", "rate")))

    return ask


def by_bench_serve(python: str, model: str) -> Asker:
    """The tool's own command line, with its custom data set."""

    def ask(url: str, scene: Scene, prompts: list[list[int]], folder: Path) -> Figures:
        data, result = folder / "prompts.jsonl", folder / "bench.json"
        result.unlink(missing_ok=True)  # of the last round
        rows = [{"prompt": ids, "output_tokens": scene.output_tokens} for ids in prompts]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        command = [python, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--base-url", url]
        command += ["--backend", "openai", "--endpoint", "/v1/completions"]
        command += ["--model", model, "--served-model-name", SERVED]
        # Ids go as they are: as text, the server's own tokenizing would lie in the time to first token.
        command += ["--tokenizer", str(PEERS / "ids"), "--trust-remote-code"]
        command += ["--dataset-name", "custom", "--dataset-path", str(data), "--skip-chat-template"]
        command += ["--disable-shuffle", "--num-prompts", str(scene.requests)]
        command += ["--custom-output-len", str(scene.output_tokens), "--ignore-eos", "--temperature", "0"]
        command += ["--max-concurrency", "1", "--save-result", "--save-detailed", "--disable-tqdm"]
        command += ["--result-dir", str(folder), "--result-filename", result.name]
        _call(command, HF_MODULES_CACHE=str(folder / "modules"))  # where transformers copies the tokenizer's code
        told: dict[str, Any] = json.loads(result.read_bytes())
        if told["completed"] != scene.requests or set(told["input_lens"]) != {scene.prompt_tokens}:
            first = next(filter(None, told.get("errors", ())), "it says no reason")
            counts = f"{told['completed']} of {scene.requests} completed, inputs {told['input_lens']}"
            raise AskerFailed(f"{counts}: {reason(first)}")
        # Its own rate leaves out the first token as well; its gaps are those between events.
        rates = [(n - 1) / sum(gaps) for n, gaps in zip(told["output_lens"], told["itls"], strict=True)]
        ttfts_ms = [1e3 * s for s in told["ttfts"]]
        return _figures(scene, told["output_lens"], ttfts_ms, ttfts_ms, rates)

    return ask


def watched(ask: Asker, gpus: Sequence[str]) -> Asker:
    """The same while the harness reads the GPUs, as it does in every launch."""

    def run(url: str, scene: Scene, prompts: list[list[int]], folder: Path) -> Figures:
        sampler = GpuSampler(gpus, folder / "gpu.parquet", folder / "gpu.jsonl", SAMPLER_HZ)
        try:
            return ask(url, scene, prompts, folder)
        finally:
            sampler.finish()

    return run


def reason(told: str) -> str:
    """The end of the last traceback, or of the text where there is none: 6 lines of 300 characters at most."""
    _, traceback, last = told.rpartition(TRACEBACK)
    lines = [line.rstrip()[:300] for line in last.splitlines() if line.strip(" \t^~")]
    if traceback:  # what a process says as it ends may follow its exception
        exception = next((n for n, line in enumerate(lines) if not line[0].isspace()), len(lines))
        lines = lines[max(0, exception - 3) : exception + 3]
    return "\n".join(lines[-6:])


def _figures(
    scene: Scene, tokens: Sequence[int], ttfts_ms: Sequence[float], whole_ms: Sequence[float], rates: Sequence[float]
) -> Figures:
    if list(tokens) != [scene.output_tokens] * scene.requests:
        raise AskerFailed(f"asked {scene.requests} times for {scene.output_tokens} tokens, got {list(tokens)}")
    ttft, whole, decode = (statistics.median(values) for values in (ttfts_ms, whole_ms, rates))
    return Figures(sum(tokens), ttft, whole, scene.prompt_tokens / ttft * 1e3, decode, tuple(rates))


def _call(command: Sequence[str], **environment: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=ASKING_S,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        raise AskerFailed(f"it had not ended after {ASKING_S:g} s") from None
    if done.returncode:
        # What it prints begins with all its arguments; why it failed stands among the errors.
        raise AskerFailed(f"exit code {done.returncode}: {reason(done.stderr) or reason(done.stdout)}")
    return done.stdout
