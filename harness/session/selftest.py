"""The client against the built-in server, whose every count and time is known, before anything is measured."""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import requests

from harness.client.asks import Ask
from harness.client.completions import Answer, understood
from harness.client.load import percentile, uncollected
from harness.client.prompts import PromptKey, prompt_ids
from harness.client.transport import COMPLETIONS, Received, open_session, receive
from harness.config.limits import Client
from harness.errors import SetupFailure
from harness.fakes.command import MTP
from harness.fakes.folder import write_rule_folder
from harness.forge.arithmetic import Rule
from harness.forge.recipe import Recipe
from harness.launch.ports import free_port
from harness.records.client import SelfTest
from harness.words import Step

NAME = "selftest"
STEP_S = 0.02
TTFT_S = 0.02
FIRST_TOKENS = 20
FAST_TOKENS = 34_000
PROMPT_TOKENS = 64
START_S = 20.0
STAMPS = re.compile(rb'"received_ns":(\d+),"sent_ns":(\d+)')


@dataclass(frozen=True)
class Stream:
    """One stream: what the server sent by its own stamps, and what the client made of it."""

    received: Received
    answer: Answer
    stamps: tuple[tuple[int, int], ...]
    """(received_ns, sent_ns) of each token event."""

    def delays_ns(self) -> list[int]:
        """From the server's stamp to the client's, per event."""
        return [a - sent for a, (_, sent) in zip(self.answer.event_ns, self.stamps, strict=False)]

    def first_token_error_ns(self) -> int | None:
        """Client's time to the first token less the server's; None where one is unknown."""
        if self.answer.first_token_ns is None or self.answer.sent_ns is None or not self.stamps:
            return None
        received, sent = self.stamps[0]
        return (self.answer.first_token_ns - self.answer.sent_ns) - (sent - received)

    def rate_error(self) -> float | None:
        """Relative error of tokens per second after the first event, against the server's stamps."""
        times = self.answer.event_ns
        if len(times) < 2 or len(self.stamps) != len(times):
            return None
        return (self.stamps[-1][1] - self.stamps[0][1]) / (times[-1] - times[0]) - 1


def self_test(client: Client) -> SelfTest:
    """Run it: a few seconds. What keeps it from running is its `error`, and no exception."""
    rule = Recipe(max_context=1_048_576)
    try:
        with tempfile.TemporaryDirectory(prefix="qualify-selftest-") as folder:
            model = write_rule_folder(Path(folder), rule)
            with (
                _server(model, QUALIFY_FAKE_STEP_S=STEP_S, QUALIFY_FAKE_TTFT_S=TTFT_S) as paced,
                _server(model) as fast,
            ):
                return _measured(paced, fast, rule.rule, client)
    except (OSError, SetupFailure, requests.RequestException) as e:
        return SelfTest(streams=client.selftest_streams, error=f"{type(e).__name__}: {e}"[:500])


def _measured(paced: str, fast: str, rule: Rule, client: Client) -> SelfTest:
    one_by_one = _run(paced, [_ask(n, 1, rule) for n in range(FIRST_TOKENS)], streams=1)

    tokens = max(2, round(client.selftest_s / STEP_S * (1 + rule.long_run_acceptance())))
    asks = [_ask(FIRST_TOKENS + n, tokens, rule) for n in range(client.selftest_streams)]
    begin, cpu = time.monotonic(), time.process_time()
    together = _run(paced, asks, streams=client.selftest_streams)
    cores = (time.process_time() - cpu) / (time.monotonic() - begin)

    cpu = time.process_time()
    [alone] = _run(fast, [_ask(0, FAST_TOKENS, rule)], streams=1)
    fast_cpu_s = time.process_time() - cpu

    expected = [rule.expected(ask.prompt_ids, ask.output_tokens, draft_tokens=1) for ask in asks]
    delays = [d for s in together for d in s.delays_ns()]
    errors = [abs(e) for e in (s.first_token_error_ns() for s in one_by_one) if e is not None]
    rates = [abs(r) for r in (s.rate_error() for s in together) if r is not None]
    return SelfTest(
        streams=client.selftest_streams,
        events_expected=sum(1 + e.drafts for e in expected),
        events_received=sum(len(s.answer.event_ns) for s in together),
        tokens_expected=sum(ask.output_tokens for ask in asks),
        tokens_received=sum(sum(s.answer.event_tokens) for s in together),
        ids_exact=all(s.answer.token_ids == e.output_ids for s, e in zip(together, expected, strict=True)),
        events_per_s=len(alone.answer.event_ns) / fast_cpu_s if fast_cpu_s > 0 else None,
        delivery_p50_ms=_ms(percentile(delays, 0.5)),
        delivery_p99_ms=_ms(percentile(delays, 0.99)),
        first_token_error_ms=statistics.median(errors) / 1e6 if errors else None,
        rate_error_pct=100 * max(rates) if len(rates) == len(together) else None,
        client_cores=cores,
        error=next((s.answer.error for s in (*one_by_one, *together, alone) if s.answer.error), None),
    )


def _ask(number: int, tokens: int, rule: Rule) -> Ask:
    key = PromptKey(0, Step.READINESS, PROMPT_TOKENS, 0, number)
    return Ask(NAME, prompt_ids(key, PROMPT_TOKENS, len(rule.successor)), tokens, f"{NAME}.{number}")


def _run(url: str, asks: list[Ask], *, streams: int) -> list[Stream]:
    send = partial(_send, url, deadline_s=60.0)
    with uncollected(), ThreadPoolExecutor(streams) as pool:
        received = list(pool.map(send, [ask.body() for ask in asks]))
    return [_stream(r) for r in received]


def _send(url: str, body: bytes, *, deadline_s: float) -> Received:
    with open_session() as session:
        return receive(session, f"{url}{COMPLETIONS}", body, deadline_s=deadline_s)


def _stream(received: Received) -> Stream:
    answer = understood(received)
    stamps = STAMPS.findall(b"".join(data for _, data in received.chunks))
    # The last event holds the usage and no token.
    return Stream(received, answer, tuple((int(a), int(b)) for a, b in stamps[: len(answer.event_ns)]))


@contextlib.contextmanager
def _server(model: Path, **pace: float) -> Iterator[str]:
    """A built-in server in a process of its own; its address."""
    port = free_port()
    arguments = ["serve", str(model), "--port", str(port), "--served-model-name", NAME, "--speculative-config", MTP]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("QUALIFY_FAKE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.fakes", *arguments],
        env={**environment, **{k: str(v) for k, v in pace.items()}, "QUALIFY_FAKE_STAMPS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    with requests.Session() as session:
        session.trust_env = False
        while True:
            with contextlib.suppress(requests.RequestException):
                if session.get(f"{url}/health", timeout=1).ok:
                    return
            if process.poll() is not None or time.monotonic() > deadline:
                raise SetupFailure("the built-in server did not come up")
            time.sleep(0.02)


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6
