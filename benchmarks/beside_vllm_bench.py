"""Our client beside `vllm bench serve`, on one real server, with the same prompts and lengths.

usage: python benchmarks/beside_vllm_bench.py --model DIR --python PYTHON [--rounds N] [--out FILE] [-- SERVE FLAGS]

The server is started by this program and stopped at its end. Three askers take turns, one request at a time:

    ours         this harness's client, token ids
    handler      the request handler of `vllm bench serve` in a closed loop of ours
    ours, sampler on    where QUALIFY_GPUS names GPUs: the same while the harness reads their memory 20 times a second;
                 its decode rate may differ from ours without by no more than requests of one asker differ
    bench serve  the tool as people call it, with its custom data set of token ids and no tokenizer: vLLM takes every
                 model of type qwen2 for one with Qwen2's own, so a forged model's words are none to it
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import requests

from harness.client.prompts import PromptKey, prompt_ids
from harness.forge.truth import load_rule
from harness.launch.ports import free_port
from harness.observe.gpu.watch import GpuSampler
from harness.session.host import GPUS
from harness.words import Step

PEERS = Path(__file__).parent / "peers"
SERVED = "forged"
READY_S = 400.0
END_S = 30.0
OURS, WATCHED = "ours", "ours, sampler on"
PEERS_OF_OURS = ("handler", "bench serve")
LIMIT_PCT = 2.0
SAMPLER_HZ = 20.0


@dataclass(frozen=True)
class Scene:
    """What is asked: as many requests, one after the other, each with a prompt of its own."""

    prompt_tokens: int
    output_tokens: int
    requests: int


SCENES = (Scene(2048, 256, 4), Scene(32_768, 256, 3))


@dataclass(frozen=True)
class Figures:
    """What an asker measured of a scene in one round."""

    tokens: int
    """Delivered, over all requests."""
    ttft_ms: float
    """Median over requests, as both rates below."""
    prefill: float
    """Prompt tokens per second up to the first token."""
    decode: float
    """Tokens per second after the first one."""
    rates: tuple[float, ...]
    """The same of every request."""


Asker = Callable[[str, Scene, list[list[int]], Path], Figures]


def main() -> None:
    """Start the server, let the askers take turns, print a table per scene; exit code 1 beyond the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", required=True, help="folder of a forged model")
    parser.add_argument("--python", default=sys.executable, help="python that has vLLM on its path")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="gets every figure as JSON")
    parser.add_argument("flags", nargs="*", help="of `vllm serve`, after --")
    arguments = parser.parse_args()
    rule = load_rule(Path(arguments.model))
    if rule is None:
        sys.exit(f"{arguments.model} is no forged model (no truth.json); `qualify forge` makes one")
    askers: dict[str, Asker] = {
        OURS: _script(sys.executable, PEERS / "ours.py"),
        "handler": _script(arguments.python, PEERS / "vllm_bench.py"),
        "bench serve": _bench(arguments.python, arguments.model),
    }
    if gpus := tuple(filter(None, os.environ.get(GPUS, "").split(","))):
        askers[WATCHED] = _watched(askers[OURS], gpus)
    with _server(arguments.python, arguments.model, arguments.flags) as url, tempfile.TemporaryDirectory() as folder:
        asked = Asked(url, askers, len(rule.successor), Path(folder))
        found = {scene: asked.rounds(scene, arguments.rounds) for scene in SCENES}
    worst, disturbed = 0.0, False
    for scene, rows in found.items():
        print(f"\n{scene.requests} x {scene.prompt_tokens} prompt tokens, {scene.output_tokens} output tokens\n")
        print("| asker | tokens | TTFT ms | PP tok/s | TG tok/s |\n|--|--|--|--|--|")
        for name, figures in rows.items():
            print(_line(name, figures))
        for peer in PEERS_OF_OURS:
            for what in ("ttft_ms", "decode"):
                difference = 100 * (_middle(rows[OURS], what) / _middle(rows[peer], what) - 1)
                worst = max(worst, abs(difference))
                print(f"ours against {peer}, {what}: {difference:+.2f} %")
        if WATCHED in rows:
            cost, noise = sampler_cost(rows[OURS], rows[WATCHED])
            disturbed |= abs(cost) > noise
            print(f"sampler on against off, decode: {cost:+.2f} %, requests of one asker differ by {noise:.2f} %")
    if arguments.out:
        told = [
            {"scene": asdict(s), "rows": {n: [asdict(f) for f in rs] for n, rs in r.items()}} for s, r in found.items()
        ]
        arguments.out.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    print(f"\nworst difference where both measure the same: {worst:.2f} % (limit {LIMIT_PCT:g} %)")
    if disturbed:
        print("the sampler costs more decode speed than requests differ among themselves")
    sys.exit(worst > LIMIT_PCT or disturbed)


@dataclass(frozen=True)
class Asked:
    """Who asks, of which server, with which tokens."""

    url: str
    askers: dict[str, Asker]
    vocabulary: int
    folder: Path

    def rounds(self, scene: Scene, rounds: int) -> dict[str, list[Figures]]:
        """Figures by asker. Every round has prompts of its own for each: nothing may come from a cache."""
        found: dict[str, list[Figures]] = {name: [] for name in self.askers}
        for number in range(-1, rounds):
            turn = list(enumerate(self.askers.items()))
            if number < 0:  # warms the server up and is thrown away: one asker will do, every peer is a process anew
                turn = turn[:1]
            for place, (name, ask) in turn if number % 2 else turn[::-1]:
                keys = [
                    PromptKey(1 + place, Step.DECODE, scene.prompt_tokens, number + 1, n) for n in range(scene.requests)
                ]
                prompts = [prompt_ids(key, scene.prompt_tokens, self.vocabulary) for key in keys]
                figures = ask(self.url, scene, prompts, self.folder)
                if number >= 0:
                    found[name].append(figures)
        return found


def sampler_cost(off: Sequence[Figures], on: Sequence[Figures]) -> tuple[float, float]:
    """Change of the decode rate with the sampler, and the largest spread between requests of one asker; per cent."""
    alone = statistics.median(rate for figures in off for rate in figures.rates)
    watched = statistics.median(rate for figures in on for rate in figures.rates)
    told = ([rate for figures in rows for rate in figures.rates] for rows in (off, on))
    spread = max(max(rates) - min(rates) for rates in told)
    return 100 * (watched / alone - 1), 100 * spread / alone


def _watched(ask: Asker, gpus: Sequence[str]) -> Asker:
    """The same while the harness reads the GPUs, as it does in every launch."""

    def run(url: str, scene: Scene, prompts: list[list[int]], folder: Path) -> Figures:
        sampler = GpuSampler(gpus, folder / "gpu.parquet", folder / "gpu.jsonl", SAMPLER_HZ)
        try:
            return ask(url, scene, prompts, folder)
        finally:
            sampler.finish()

    return run


def _script(python: str, script: Path) -> Asker:
    def run(url: str, scene: Scene, prompts: list[list[int]], folder: Path) -> Figures:
        file = folder / "prompts.json"
        file.write_text(json.dumps(prompts), "utf-8")
        done = _call([python, str(script), url, SERVED, "1", str(file), str(scene.output_tokens)])
        asked = json.loads(done.splitlines()[-1])["requests"]
        if failed := [r["error"] for r in asked if r["error"]]:
            sys.exit(f"{script.name}: {failed[0]}")
        ttft = statistics.median(r["ttft_ms"] for r in asked)
        return Figures(
            tokens=sum(r["tokens"] for r in asked),
            ttft_ms=ttft,
            prefill=scene.prompt_tokens / ttft * 1e3,
            decode=statistics.median(r["rate"] for r in asked),
            rates=tuple(r["rate"] for r in asked),
        )

    return run


def _bench(python: str, model: str) -> Asker:
    """The tool's own command line."""

    def run(url: str, scene: Scene, prompts: list[list[int]], folder: Path) -> Figures:
        data, result = folder / "prompts.jsonl", folder / "bench.json"
        rows = [{"prompt": ids, "output_tokens": scene.output_tokens} for ids in prompts]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        command = [python, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--base-url", url]
        command += ["--backend", "openai", "--endpoint", "/v1/completions", "--model", model, "--skip-tokenizer-init"]
        command += ["--served-model-name", SERVED, "--dataset-name", "custom", "--dataset-path", str(data)]
        command += ["--skip-chat-template", "--disable-shuffle", "--num-prompts", str(scene.requests)]
        # Without a tokenizer it would ask for one token each; what it sends besides has the last word.
        command += ["--extra-body", json.dumps({"max_tokens": scene.output_tokens, "temperature": 0})]
        command += ["--ignore-eos", "--max-concurrency", "1", "--save-result", "--save-detailed", "--disable-tqdm"]
        command += ["--result-dir", str(folder), "--result-filename", result.name]
        _call(command)
        told: dict[str, Any] = json.loads(result.read_bytes())
        if told["completed"] != scene.requests or set(told["input_lens"]) != {scene.prompt_tokens}:
            first = next(filter(None, told.get("errors", ())), "it says no reason")
            counts = f"{told['completed']} of {scene.requests} completed, inputs {told['input_lens']}"
            sys.exit(f"bench serve: {counts}: {first[-800:]}")
        # Without a tokenizer it sums nothing up, but keeps every time: the gaps after the first token are its decoding.
        ttft = statistics.median(told["ttfts"])
        rates = [(n - 1) / sum(gaps) for n, gaps in zip(told["output_lens"], told["itls"], strict=True)]
        return Figures(
            tokens=sum(told["output_lens"]),
            ttft_ms=ttft * 1e3,
            prefill=scene.prompt_tokens / ttft,
            decode=statistics.median(rates),
            rates=tuple(rates),
        )

    return run


def _call(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} failed:\n{(done.stderr + done.stdout)[-3000:]}")
    return done.stdout


def _line(name: str, figures: Sequence[Figures]) -> str:
    ttft, prefill, decode = (_middle(figures, what) for what in ("ttft_ms", "prefill", "decode"))
    return f"| {name} | {sum(f.tokens for f in figures):,} | {ttft:,.2f} | {prefill:,.0f} | {decode:,.1f} |"


def _middle(figures: Sequence[Figures], what: str) -> float:
    return float(statistics.median(getattr(f, what) for f in figures))


@contextlib.contextmanager
def _server(python: str, model: str, flags: Sequence[str]) -> Iterator[str]:
    port = free_port()
    command = [python, "-m", "vllm.entrypoints.cli.main", "serve", model, "--served-model-name", SERVED]
    command += ["--host", "127.0.0.1", "--port", str(port), "--no-enable-prefix-caching", *flags]
    environment = dict(os.environ)
    if gpus := os.environ.get(GPUS):
        environment["CUDA_VISIBLE_DEVICES"] = gpus
    with tempfile.NamedTemporaryFile(prefix="qualify-bench-", suffix=".log") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            _wait(f"http://127.0.0.1:{port}", process, Path(log.name))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers may outlive their server


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(requests.RequestException):
            if requests.get(f"{url}/health", timeout=2).ok:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"the server did not come up:\n{log.read_text('utf-8', 'replace')[-3000:]}")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
