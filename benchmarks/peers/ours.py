"""Our client in the same closed loop, in a process of its own.

usage: ours.py URL MODEL STREAMS PROMPTS OUTPUT_TOKENS
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness.client.asks import Ask
from harness.client.completions import understood
from harness.client.transport import COMPLETIONS, Received, open_session, receive


def measure(url: str, model: str, streams: int, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
    """Send every prompt, `streams` at a time; parsing is part of the CPU time, as it is of the peers'."""

    def send(body: bytes) -> Received:
        with open_session() as session:
            return receive(session, f"{url}{COMPLETIONS}", body, deadline_s=600.0)

    cpu = time.process_time()
    made = [_made(Ask(model, ids, tokens, f"benchmark.{n}")) for n, ids in enumerate(prompts)]
    with ThreadPoolExecutor(streams) as pool:
        received = list(pool.map(send, [body for body, _ in made]))
    told = [_told(r, json_ns) for r, (_, json_ns) in zip(received, made, strict=True)]
    return {"cpu_s": time.process_time() - cpu, "requests": told}


def _made(ask: Ask) -> tuple[bytes, int]:
    """The request's JSON, made before any stream runs as the harness does, and how long that took in ns."""
    begun_ns = time.monotonic_ns()
    body = ask.body()
    return body, time.monotonic_ns() - begun_ns


def _told(received: Received, json_ns: int) -> dict[str, Any]:
    """`ttft_ms` from the request's last byte on, as the harness counts; `whole_ms` with its JSON and its sending."""
    answer = understood(received)
    ttft_ns = whole_ns = None
    if answer.first_token_ns is not None and answer.sent_ns is not None:
        ttft_ns = answer.first_token_ns - answer.sent_ns
        whole_ns = answer.first_token_ns - received.begin_ns + json_ns
    times = answer.event_ns
    rate = sum(answer.event_tokens[1:]) / ((times[-1] - times[0]) / 1e9) if len(times) > 1 else None
    return {
        "tokens": sum(answer.event_tokens),
        "ttft_ms": None if ttft_ns is None else ttft_ns / 1e6,
        "whole_ms": None if whole_ns is None else whole_ns / 1e6,
        "rate": rate,
        "error": answer.error,
    }


if __name__ == "__main__":
    url, model, streams, prompts, tokens = sys.argv[1:]
    ids = json.loads(Path(prompts).read_text("utf-8"))
    sys.stdout.write(json.dumps(measure(url, model, int(streams), ids, int(tokens))) + "\n")
