"""Our client beside its peers, against one built-in server that writes down what really happened.

usage: python benchmarks/client.py [--vllm-python PATH] [--guidellm PATH] [--rounds N]

Each client sends the same prompts in the same closed loop, one client after the other, rounds
interleaved. The server's truth is taken per client from its own record: a client that makes the server
slower is not blamed for it, only for what it misses. guidellm cannot send token ids, so its prompts are
the words that the server's tokenizer makes the same ids of; it is installed on demand (with torch: name
the index of CPU wheels in TORCH_INDEX, or give an environment that has it).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from harness.client.prompts import PromptKey, prompt_ids
from harness.launch.ports import free_port
from harness.paths import PROJECT, work_root
from harness.words import Step

MODEL = "fake"
STEP_S = 0.02
TTFT_S = 0.1
VOCABULARY = 128
PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Scene:
    """What is asked of the server."""

    name: str
    streams: int
    requests: int
    prompt_tokens: int
    output_tokens: int

    def prompts(self) -> list[list[int]]:
        """Token ids per request."""
        keys = (PromptKey(1, Step.DECODE, self.prompt_tokens, 0, n) for n in range(self.requests))
        return [prompt_ids(key, self.prompt_tokens, VOCABULARY) for key in keys]


SCENES = (
    Scene("8 streams x 50 steps/s, 64 prompt tokens", 8, 24, 64, 170),
    Scene("64 streams x 50 steps/s, 64 prompt tokens", 64, 128, 64, 170),
    Scene("1 stream, 32,768 prompt tokens", 1, 6, 32_768, 40),
    Scene("4 streams, 131,072 prompt tokens", 4, 8, 131_072, 40),
)

Measured = dict[str, Any]
"""cpu_s, and of each request tokens, ttft_ms, rate, error."""
Client = Callable[[str, Scene, Path], Measured]


def main() -> None:
    """Run every client through every scene and print a table per scene."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--vllm-python", default=str(PROJECT / ".venv-vllm/bin/python"), help="python of the engine")
    parser.add_argument("--guidellm", default="", help="guidellm's executable; installed on demand without it")
    parser.add_argument("--without", nargs="*", default=[], help="clients to leave out: vllm guidellm")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()

    clients: dict[str, Client] = {"ours": _script(sys.executable, PEERS / "ours.py")}
    if "vllm" not in arguments.without:
        clients["vllm bench serve"] = _script(arguments.vllm_python, PEERS / "vllm_bench.py")
    if "guidellm" not in arguments.without:
        clients["guidellm"] = _guidellm(arguments.guidellm or _installed())
    print(f"load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    for scene in SCENES:
        print(f"\n{scene.name}, {scene.requests} requests of {scene.output_tokens} tokens, {arguments.rounds} rounds\n")
        print("| client | tokens / truth | TTFT ms, truth | error ms | rate tok/s, truth | error % | CPU s |")
        print("|--|--|--|--|--|--|--|")
        for name, rows in _rounds(clients, scene, arguments.rounds).items():
            print(_line(name, rows))
    print(f"\nload average after: {os.getloadavg()[0]:.2f}")
    print("guidellm's CPU is that of all its processes, start included")


def _rounds(clients: dict[str, Client], scene: Scene, rounds: int) -> dict[str, list[tuple[Measured, list[Any]]]]:
    found: dict[str, list[tuple[Measured, list[Any]]]] = {name: [] for name in clients}
    with tempfile.TemporaryDirectory(prefix="qualify-benchmark-") as folder:
        for number in range(rounds):
            for name, client in clients.items():
                truth = Path(folder) / f"{number}-{len(found[name])}-{name.partition(' ')[0]}.truth"
                with _server(truth) as url:
                    measured = client(url, scene, Path(folder))
                # Left out: what a peer sends on its own account, to see whether the server answers.
                told = [json.loads(line) for line in truth.read_text("utf-8").splitlines()]
                found[name].append((measured, [t for t in told if t["tokens"] == scene.output_tokens]))
    return found


def _line(name: str, rows: Sequence[tuple[Measured, list[Any]]]) -> str:
    tokens = sum(r["tokens"] or 0 for m, _ in rows for r in m["requests"])
    true_tokens = sum(t["tokens"] for _, told in rows for t in told)
    failed = sum(r["error"] is not None for m, _ in rows for r in m["requests"])
    ttft, true_ttft = [], []
    rate, true_rate = [], []
    for measured, told in rows:  # the median of each round, and of the rounds the median again
        ttft.append(_median([r["ttft_ms"] for r in measured["requests"]]))
        true_ttft.append(_median([(t["first_ns"] - t["received_ns"]) / 1e6 for t in told]))
        rate.append(_median([r["rate"] for r in measured["requests"]]))
        true_rate.append(_median([t["after_first"] / ((t["last_ns"] - t["first_ns"]) / 1e9) for t in told]))
    ttft_error = statistics.median(a - b for a, b in zip(ttft, true_ttft, strict=True))
    rate_error = statistics.median(100 * (a / b - 1) for a, b in zip(rate, true_rate, strict=True))
    cpu = statistics.median(m["cpu_s"] for m, _ in rows)
    failures = f", {failed} failed" if failed else ""
    return (
        f"| {name} | {tokens:,} / {true_tokens:,}{failures} | {_median(ttft):.2f}, {_median(true_ttft):.2f} "
        f"| {ttft_error:+.2f} | {_median(rate):.2f}, {_median(true_rate):.2f} | {rate_error:+.2f} | {cpu:.2f} |"
    )


def _median(values: Sequence[float | None]) -> float:
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else float("nan")


def _script(python: str, script: Path) -> Client:
    """A client that is a script of ours in somebody's environment."""

    def run(url: str, scene: Scene, folder: Path) -> Measured:
        prompts = folder / "prompts.json"
        prompts.write_text(json.dumps(scene.prompts()), "utf-8")
        command = [python, str(script), url, MODEL, str(scene.streams), str(prompts), str(scene.output_tokens)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{script.name} failed:\n{done.stderr[-2000:]}")
        measured: Measured = json.loads(done.stdout.splitlines()[-1])
        return measured

    return run


def _guidellm(executable: str) -> Client:
    def run(url: str, scene: Scene, folder: Path) -> Measured:
        data, report = folder / "prompts.jsonl", folder / "guidellm.json"
        texts = [" ".join(f"w{t}" for t in ids) for ids in scene.prompts()]
        rows = [{"prompt": text, "output_tokens_count": scene.output_tokens} for text in texts]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        command = [executable, "run", "--disable-console"]
        command += ["--backend", f"kind=openai_http,target={url},model={MODEL},request_format=/v1/completions"]
        command += ["--profile", f"kind=concurrent,streams={scene.streams}"]
        command += ["--constraint", f"kind=max_requests,count={scene.requests}"]
        command += ["--data", f"kind=json_file,path={data}", "--output", f"kind=json,path={report}"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode or not report.is_file():
            sys.exit(f"guidellm failed:\n{done.stderr[-2000:]}")
        found = json.loads(report.read_bytes())["benchmarks"][0]["requests"]
        report.unlink()
        answers = [
            {
                "tokens": r["output_metrics"]["text_tokens"],
                "ttft_ms": r["time_to_first_token_ms"],
                "rate": 1e3 / r["inter_token_latency_ms"] if r["inter_token_latency_ms"] else None,
                "error": None,
            }
            for r in found["successful"]
        ]
        lost = {"tokens": None, "ttft_ms": None, "rate": None, "error": "errored"}
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"cpu_s": cpu_s, "requests": answers + [lost] * len(found["errored"])}

    return run


def _installed() -> str:
    """The guidellm of an environment of its own, made now if it is not there."""
    folder = work_root() / "peers" / "guidellm"
    executable = folder / "bin" / "guidellm"
    if not executable.is_file():
        print(f"installing guidellm into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "--quiet"]
        if index := os.environ.get("TORCH_INDEX"):
            subprocess.run([*pip, "--index-url", index, "torch"], check=True)
        subprocess.run([*pip, "guidellm"], check=True)
    return str(executable)


@contextlib.contextmanager
def _server(truth: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "harness.cli", "fake-server", "--mtp", "--port", str(port)]
    command += ["--step-s", str(STEP_S), "--ttft-s", str(TTFT_S)]
    environment = {**os.environ, "QUALIFY_FAKE_TRUTH": str(truth)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait(url: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(requests.RequestException):
            if requests.get(f"{url}/health", timeout=1).ok:
                return
        if time.monotonic() > deadline:
            sys.exit("the built-in server did not come up")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
