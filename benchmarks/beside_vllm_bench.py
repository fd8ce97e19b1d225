"""Our client beside `vllm bench serve`, on one real server, with the same prompts and lengths.

usage: python benchmarks/beside_vllm_bench.py --model DIR --python PYTHON [--rounds N] [--prompt-tokens N ...]
                                              [--out FILE] [-- SERVE FLAGS]

The server is started by this program and stopped at its end, which Ctrl-C and SIGTERM bring about too: the figures
until then are written, fewer rows of the scene that was cut off. The askers take turns, one request at a time:

    ours         this harness's client, token ids
    handler      the request handler of `vllm bench serve` in a closed loop of ours
    bench serve  the tool as people call it, with its custom data set of token ids and a tokenizer that leaves them as
                 they are: vLLM takes every model of type qwen2 for one with Qwen2's own, to which a forged model's
                 words are none
    ours, sampler on    where QUALIFY_GPUS names GPUs: the same while the harness reads their memory 20 times a second;
                 its decode rate may differ from ours without by no more than requests of one asker differ

Ours counts the time to the first token from the request's last byte on: making JSON of the prompt, connecting and
sending it is the client's time and not the engine's. vLLM's tool counts that in, over a connection that it keeps; so
here ours is asked for the tool's figure as well, over a new one, and that is what is compared.

An asker that fails sits out the rest of its scene. The exit code is 0, 4 beyond a limit, 3 where an asker failed, or
130 where it was stopped; what was measured is printed and written either way.
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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import requests

from benchmarks.askers import PEERS, SERVED, Asker, AskerFailed, Figures, Scene, by_bench_serve, by_script, watched
from harness.client.prompts import PromptKey, prompt_ids
from harness.evidence.undivided import uninterrupted
from harness.forge.truth import load_rule
from harness.launch.ports import free_port
from harness.session.undisturbed import undisturbed
from harness.session.visible import named
from harness.words import Step

READY_S = 400.0
END_S = 30.0
OURS, WATCHED = "ours", "ours, sampler on"
PEERS_OF_OURS = ("handler", "bench serve")
COMPARED = {"whole_ms": "time from before the JSON to the first token", "decode": "TG"}
LIMIT_PCT = 2.0
BEYOND, FAILED, STOPPED = 4, 3, 130
"""Exit codes; 1 is Python's where something was raised, 2 argparse's, 130 what a shell says of Ctrl-C."""
SCENES = (Scene(2048, 256, 4), Scene(32_768, 256, 3))


@dataclass(frozen=True)
class Found:
    """What the askers measured of a scene."""

    scene: Scene
    rows: dict[str, list[Figures]] = field(default_factory=dict)
    """By asker, a row per round; an asker without any is not here."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by asker; rows of its earlier rounds are kept."""

    def differences(self) -> dict[tuple[str, str], float]:
        """Of ours against a peer in what both measure the same, by peer and what; per cent."""
        return {
            (peer, what): 100 * (_middle(self.rows[OURS], what) / _middle(self.rows[peer], what) - 1)
            for peer in PEERS_OF_OURS
            for what in COMPARED
            if OURS in self.rows and peer in self.rows
        }

    def sampler(self) -> tuple[float, float] | None:
        """The sampler's cost and the noise that it is held against; None where one of both was not measured."""
        if OURS in self.rows and WATCHED in self.rows:
            return sampler_cost(self.rows[OURS], self.rows[WATCHED])
        return None

    def told(self) -> dict[str, Any]:
        """For --out."""
        rows = {name: [asdict(figures) for figures in rows] for name, rows in self.rows.items()}
        return {"scene": asdict(self.scene), "rows": rows, "failed": self.failed}


def main() -> None:
    """Start the server, let the askers take turns, print a table per scene; see above for the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", required=True, help="folder of a forged model")
    parser.add_argument("--python", default=sys.executable, help="python that has vLLM on its path")
    parser.add_argument("--rounds", type=int, default=3)
    lengths = [scene.prompt_tokens for scene in SCENES]
    parser.add_argument("--prompt-tokens", type=int, nargs="+", choices=lengths, default=lengths, help="default: all")
    parser.add_argument("--out", type=Path, help="gets every figure as JSON")
    parser.add_argument("flags", nargs="*", help="of `vllm serve`, after --")
    arguments = parser.parse_args()
    rule = load_rule(Path(arguments.model))
    if rule is None:
        sys.exit(f"{arguments.model} is no forged model (no truth.json); `qualify forge` makes one")
    askers: dict[str, Asker] = {
        OURS: by_script(sys.executable, PEERS / "ours.py"),
        "handler": by_script(arguments.python, PEERS / "vllm_bench.py"),
        "bench serve": by_bench_serve(arguments.python, arguments.model),
    }
    if gpus := named(os.environ):
        askers[WATCHED] = watched(askers[OURS], gpus)
    found: list[Found] = []
    server = _server(arguments.python, arguments.model, arguments.flags)
    try:
        with server as url, tempfile.TemporaryDirectory() as folder:
            asked = Asked(url, askers, len(rule.successor), Path(folder))
            for scene in (s for s in SCENES if s.prompt_tokens in arguments.prompt_tokens):
                found.append(Found(scene))
                try:
                    asked.rounds(found[-1], arguments.rounds)
                finally:  # before the server is stopped: whoever stops us may not wait for that
                    uninterrupted(lambda: _keep(found, arguments.out))
    except KeyboardInterrupt:
        print("stopped: what is above is all that was measured", file=sys.stderr)
        sys.exit(STOPPED)
    text, code = summary(found)
    print(f"\n{text}")
    sys.exit(code)


def _keep(found: Sequence[Found], out: Path | None) -> None:
    """Print the last scene; write all of them, as a whole or not at all."""
    print(table(found[-1]), flush=True)
    if out:
        partial = out.with_name(f"{out.name}.partial")
        partial.write_text(json.dumps([f.told() for f in found], indent=1) + "\n", "utf-8")
        partial.replace(out)


@dataclass(frozen=True)
class Asked:
    """Who asks, of which server, with which tokens."""

    url: str
    askers: dict[str, Asker]
    vocabulary: int
    folder: Path

    def rounds(self, found: Found, rounds: int) -> None:
        """Add what is measured. Every round has prompts of its own for each asker: nothing may come from a cache."""
        scene = found.scene
        for number in range(-1, rounds):
            turn = list(enumerate(self.askers.items()))
            if number < 0:  # warms the server up and is thrown away: one asker will do, every peer is a process anew
                turn = turn[:1]
            for place, (name, ask) in turn if number % 2 else turn[::-1]:
                if name in found.failed:
                    continue
                keys = [
                    PromptKey(1 + place, Step.DECODE, scene.prompt_tokens, number + 1, n) for n in range(scene.requests)
                ]
                prompts = [prompt_ids(key, scene.prompt_tokens, self.vocabulary) for key in keys]
                try:
                    figures = ask(self.url, scene, prompts, self.folder)
                except AskerFailed as e:
                    found.failed[name] = str(e)
                except Exception as e:  # noqa: BLE001  # whatever a peer's answer is like, the others' figures stay
                    found.failed[name] = f"{type(e).__name__}: {e}"
                else:
                    if number >= 0:
                        found.rows.setdefault(name, []).append(figures)


def sampler_cost(off: Sequence[Figures], on: Sequence[Figures]) -> tuple[float, float]:
    """Change of the decode rate with the sampler, and the largest spread between requests of one asker; per cent."""
    alone = statistics.median(rate for figures in off for rate in figures.rates)
    watched = statistics.median(rate for figures in on for rate in figures.rates)
    told = ([rate for figures in rows for rate in figures.rates] for rows in (off, on))
    spread = max(max(rates) - min(rates) for rates in told)
    return 100 * (watched / alone - 1), 100 * spread / alone


def table(found: Found) -> str:
    """A row per asker, then ours against each peer, the sampler, and who failed."""
    scene = found.scene
    lines = [f"\n{scene.requests} x {scene.prompt_tokens} prompt tokens, {scene.output_tokens} output tokens\n"]
    lines += ["| asker | rounds | tokens | TTFT ms | from before the JSON, ms | PP tok/s | TG tok/s |"]
    lines += ["|--|--|--|--|--|--|--|"]
    for name, rows in found.rows.items():
        ttft, whole, prefill, decode = (_middle(rows, what) for what in ("ttft_ms", "whole_ms", "prefill", "decode"))
        lines.append(
            f"| {name} | {len(rows)} | {sum(figures.tokens for figures in rows):,} "
            f"| {ttft:,.2f} | {whole:,.2f} | {prefill:,.0f} | {decode:,.1f} |"
        )
    for (peer, what), pct in found.differences().items():
        lines.append(f"ours against {peer}, {COMPARED[what]}: {pct:+.2f} %")
    if sampler := found.sampler():
        cost, noise = sampler
        lines.append(f"sampler on against off, decode: {cost:+.2f} %, requests of one asker differ by {noise:.2f} %")
    lines += [f"{name} failed: {why}" for name, why in found.failed.items()]
    return "\n".join(lines)


def summary(found: Sequence[Found]) -> tuple[str, int]:
    """What it all comes to, and the exit code."""
    worst = max((abs(pct) for f in found for pct in f.differences().values()), default=None)
    disturbed = any(abs(cost) > noise for f in found if (sampler := f.sampler()) for cost, noise in [sampler])
    failed = sorted({name for f in found for name in f.failed})
    seen = "ours was compared with no peer" if worst is None else f"{worst:.2f} % (limit {LIMIT_PCT:g} %)"
    lines = [f"worst difference where both measure the same: {seen}"]
    if disturbed:
        lines.append("the sampler costs more decode speed than requests differ among themselves")
    if failed:
        lines.append(f"failed, see above: {'; '.join(failed)}")
    beyond = disturbed or (worst is not None and worst > LIMIT_PCT)
    return "\n".join(lines), FAILED if failed else BEYOND if beyond else 0


def _middle(figures: Sequence[Figures], what: str) -> float:
    return float(statistics.median(getattr(f, what) for f in figures))


@contextlib.contextmanager
def _server(python: str, model: str, flags: Sequence[str]) -> Iterator[str]:
    port = free_port()
    command = [python, "-m", "vllm.entrypoints.cli.main", "serve", model, "--served-model-name", SERVED]
    command += ["--host", "127.0.0.1", "--port", str(port), "--no-enable-prefix-caching", *flags]
    environment = dict(os.environ)
    if gpus := named(os.environ):
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    with tempfile.NamedTemporaryFile(prefix="qualify-bench-", suffix=".log") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            _wait(f"http://127.0.0.1:{port}", process, Path(log.name))
            yield f"http://127.0.0.1:{port}"
            if process.poll() is not None:
                print(f"the server ended while it was asked:\n{_tail(Path(log.name))}")
        finally:
            with undisturbed():  # the impatient ask twice
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
            sys.exit(f"the server did not come up:\n{_tail(log)}")
        time.sleep(0.2)


def _tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-3000:]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so ends a visit whose time is over
    main()
