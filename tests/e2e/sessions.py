"""Run `qualify` as a user does, in a process of its own, and look at what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.evidence.bundle import Bundle
from harness.judge.case import read_case
from harness.launch.state import MARKER
from harness.records import LaunchRecord, Row, Verdict

ROOT = Path(__file__).resolve().parents[2]

FAKE_PROFILE = """
schema_version = 1
name = "fake"
description = "the fake server, so that faults come when asked for"

[engine]
command = ["{python}", "-m", "harness.fakes"]

[model]
served_name = "forged"
forge = {{ seed = 1 }}

[serve.flags]
max-model-len = 33_280

[modes.mtp0]
[modes.mtp1]
draft_tokens = 1
flags = {{ speculative-config = {{ method = "mtp", num_speculative_tokens = 1 }} }}

[warmup_off.flags]
kernel-config = {{ enable_jit_warmup = false }}

[plan]
modes = ["mtp1"]
warmups = ["engine"]
caches = ["cold"]
rerun_void = false
seed = 3

[course]
kinds = []
identity_prompts = 3
identity_output_tokens = 40
decode_output_tokens = 32
contexts = [
  {{ prompt_tokens = 2048, prefill_passes = 2, decode_passes = 2 }},
  {{ prompt_tokens = 32_768, prefill_passes = 1, decode_passes = 1 }},
]
ladder = [ {{ prompt_tokens = 64 }}, {{ prompt_tokens = 64, concurrent = 3 }} ]

[timeouts]
health_s = 20.0
model_named_s = 5.0
first_request_s = 5.0
request_s = 5.0
stop_s = 3.0

[client]
selftest_s = 0

[estimate]
start_cold_s = 1.0
start_warm_s = 1.0
course_s = 1.0
"""


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    results: Path

    @property
    def bundle(self) -> Bundle:
        """The newest bundle."""
        return Bundle((self.results / "latest").resolve())

    @property
    def verdict(self) -> Verdict:
        """Its verdict."""
        return self.bundle.verdict()

    def rows(self, name: str, **where: object) -> list[Row]:
        """Rows of a name, narrowed by fields."""
        return [
            r
            for r in self.verdict.rows
            if r.name == name and all(getattr(r, field) == value for field, value in where.items())
        ]

    def row(self, name: str, **where: object) -> Row:
        """The only such row."""
        [row] = self.rows(name, **where)
        return row


def records(finished: Finished) -> list[LaunchRecord]:
    """What is recorded of its launches."""
    found = [x.record for x in read_case(finished.bundle).launches.values()]
    return [r for r in found if r is not None]


def fake_profile(folder: Path, *, kinds: bool = False) -> Path:
    """A profile of the fake server; without `kinds`, whose counters take a second to settle, in most tests."""
    path = folder / "fake.toml"
    # The fake server of this checkout, whatever else is installed.
    environment = f'\n[serve.env]\nPYTHONPATH = "{ROOT}"\n'
    text = FAKE_PROFILE.replace("kinds = []\n", "") if kinds else FAKE_PROFILE
    path.write_text(text.format(python=sys.executable) + environment, "utf-8")
    return path


def stack(folder: Path, name: str, **env: str) -> Path:
    """A stack that changes the environment only: that is where the fake server's faults come from."""
    path = folder / f"{name}.toml"
    lines = [f'schema_version = 1\nname = "{name}"\ndescription = "a fault"\n[serve.env]\n']
    path.write_text("".join(lines + [f'{k} = "{v}"\n' for k, v in env.items()]), "utf-8")
    return path


def sets(*settings: str) -> tuple[str, ...]:
    """The options that change these values of a profile."""
    return tuple(x for setting in settings for x in ("--set", setting))


SLOW = sets("serve.env.QUALIFY_FAKE_STEP_S='0.05'")
"""So that the fake server is still answering when something is done to its session."""
STOPS_S = 120.0
"""For a session that is asked to stop."""


def environment(results: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what would steer a session, and with `more`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUALIFY_", "PYTEST_", "CUDA_VISIBLE_"))}
    return {**kept, "QUALIFY_RESULTS": str(results), "QUALIFY_LOCKS": str(results / "locks"), **(more or {})}


def start(
    results: Path,
    *arguments: str,
    program: tuple[str, ...] = ("-m", "harness.cli", "run"),
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a command; its processes are found again by `left_running`."""
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        env=environment(results, env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_hear_ctrl_c,  # noqa: PLW1509  # it only sets a signal
    )


def _hear_ctrl_c() -> None:
    """What runs in the background of a script was started deaf to it, and so would be all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(
    results: Path,
    *arguments: str,
    program: tuple[str, ...] = ("-m", "harness.cli", "run"),
    timeout_s: float = 240,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command to its end; one that takes longer is stopped first, or it would take the cores of what follows."""
    process = start(results, *arguments, program=program, env=env)
    try:
        out, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.terminate()  # a session stops its servers then
        out, _ = process.communicate(timeout=STOPS_S)
        raise AssertionError(f"not over within {timeout_s:g} s: {out}") from None
    return Finished(process.returncode, out, results)


def left_running(results: Path) -> list[psutil.Process]:
    """Servers of sessions below `results` that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
        if MARKER in environment and str(results) in environment.get("VLLM_CACHE_ROOT", ""):
            found.append(process)
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
