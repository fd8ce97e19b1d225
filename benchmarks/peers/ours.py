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
from harness.client.completions import Answer, understood
from harness.client.transport import COMPLETIONS, Received, open_session, receive


def measure(url: str, model: str, streams: int, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
    """Send every prompt, `streams` at a time; parsing is part of the CPU time, as it is of the peers'."""

    def send(ask: Ask) -> tuple[int, Received]:
        with open_session() as session:
            begun_ns = time.monotonic_ns()
            return begun_ns, receive(session, f"{url}{COMPLETIONS}", ask.body(), deadline_s=600.0)

    cpu = time.process_time()
    asks = [Ask(model, ids, tokens, f"benchmark.{n}") for n, ids in enumerate(prompts)]
    with ThreadPoolExecutor(streams) as pool:
        received = list(pool.map(send, asks))
    answers = [(begun_ns, understood(r)) for begun_ns, r in received]
    return {"cpu_s": time.process_time() - cpu, "requests": [_told(*a) for a in answers]}


def _told(begun_ns: int, answer: Answer) -> dict[str, Any]:
    """`ttft_ms` from the request's last byte on, as the harness counts; `whole_ms` from before its JSON is made."""
    ttft_ns = whole_ns = None
    if answer.first_token_ns is not None and answer.sent_ns is not None:
        ttft_ns, whole_ns = answer.first_token_ns - answer.sent_ns, answer.first_token_ns - begun_ns
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
