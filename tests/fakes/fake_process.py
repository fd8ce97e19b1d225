"""Starts the fake as its users do, and speaks to it with requests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from prometheus_client.parser import text_string_to_metric_families

MTP = ("--speculative-config", '{"method":"mtp","num_speculative_tokens":1}')
READY = "Application startup complete."
DEADLINE_S = 5.0


@dataclass(frozen=True)
class Stream:
    """What a stream brought: its JSON events, and whether it ended in order."""

    events: list[dict[str, Any]]
    done: bool

    @property
    def chunk_ids(self) -> list[list[int]]:
        return [e["choices"][0]["token_ids"] for e in self.events if e.get("choices")]

    @property
    def ids(self) -> list[int]:
        return [token for chunk in self.chunk_ids for token in chunk]

    @property
    def finish_reasons(self) -> list[str | None]:
        return [e["choices"][0]["finish_reason"] for e in self.events if e.get("choices")]


@dataclass(frozen=True)
class Fake:
    process: subprocess.Popen[bytes]
    port: int
    log_file: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text("utf-8", "replace")

    def get(self, path: str) -> requests.Response:
        return requests.get(self.url + path, timeout=DEADLINE_S)

    def post(self, path: str, **body: Any) -> requests.Response:
        return requests.post(self.url + path, json=body, timeout=DEADLINE_S)

    def complete(self, prompt: list[int], max_tokens: int, **more: Any) -> requests.Response:
        asked = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        return self.post("/v1/completions", **asked, return_token_ids=True, **more)

    def ids(self, prompt: list[int], max_tokens: int) -> list[int]:
        ids: list[int] = self.complete(prompt, max_tokens).json()["choices"][0]["token_ids"]
        return ids

    def stream(self, prompt: list[int], max_tokens: int, *, timeout_s: float = DEADLINE_S, **more: Any) -> Stream:
        body = {
            "prompt": prompt,
            "max_tokens": max_tokens,
            "return_token_ids": True,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            **more,
        }
        events, done = [], False
        with (
            requests.post(f"{self.url}/v1/completions", json=body, stream=True, timeout=timeout_s) as response,
            contextlib.suppress(requests.RequestException),
        ):
            for line in response.iter_lines(chunk_size=None):
                done = done or line == b"data: [DONE]"
                if line and not done:
                    events.append(json.loads(line.removeprefix(b"data: ")))
        return Stream(events, done)

    def samples(self) -> dict[str, float]:
        """The scrape, by name; of a labelled one the name with the label that tells its samples apart."""
        text = self.get("/metrics").text
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                label = sample.labels.get("finished_reason") or sample.labels.get("position")
                found[f"{sample.name}:{label}" if label else sample.name] = sample.value
        return found

    def wait_for_log(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.log:
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.log}"
            assert self.process.poll() is None, f"exited with {self.process.returncode}:\n{self.log}"
            time.sleep(0.005)

    def wait_for_exit(self) -> int:
        return self.process.wait(DEADLINE_S)

    def stop(self) -> int:
        self.process.terminate()
        return self.wait_for_exit()


@contextlib.contextmanager
def fake(model: Path, *flags: str, faults: str = "", ready: bool = True, **environment: str) -> Iterator[Fake]:
    """A fake server in a session of its own, ready unless told otherwise; nothing of it is left afterwards."""
    port = free_port()
    log_file = model.parent / f"server-{port}.log"
    command = [sys.executable, "-m", "harness.fakes", "serve", str(model)]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), *flags]
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, "QUALIFY_FAKE_FAULTS": faults, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Fake(process, port, log_file)
    try:
        if ready:
            server.wait_for_log(READY)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
