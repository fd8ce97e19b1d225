"""`qualify fake-server`, as somebody uses it who tests a suite."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from harness.client.asks import Ask
from harness.client.completions import complete
from harness.client.transport import open_session
from harness.fakes.command import Options, arguments, environment
from harness.forge.recipe import Recipe
from tests.fakes.fake_process import free_port

COMMAND = (sys.executable, "-m", "harness.cli", "fake-server")


@contextmanager
def served(log: Path, *options: str) -> Iterator[str]:
    port = free_port()
    with log.open("wb") as stream:
        process = subprocess.Popen([*COMMAND, "--port", str(port), *options], stdout=stream, stderr=stream)
    try:
        deadline = time.monotonic() + 20
        while "Application startup complete." not in log.read_text("utf-8"):
            assert process.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        assert process.wait(10) == 0


def test_without_a_model_it_serves_a_known_rule(tmp_path: Path) -> None:
    options = ("--mtp", "--acceptance", "0.75", "--tokens-per-event", "2", "--faults", "wrong-usage@2")
    expected = Recipe(max_context=1_048_576, wrong_drafts=0.25).rule.expected([3, 4], 40, draft_tokens=1)
    with served(tmp_path / "log", *options, "--log-version", "0.28.0", "--", "--max-num-seqs", "4") as url:
        with open_session() as session:
            right, wrong = (complete(session, url, Ask("fake", [3, 4], 40, "s"), deadline_s=5) for _ in range(2))
        assert requests.get(f"{url}/version", timeout=5).json() == {"version": "0.28.0"}
    assert right.token_ids == expected.output_ids
    assert (right.completion_tokens, wrong.completion_tokens) == (40, 41)
    assert "'max_num_seqs': 4" in (tmp_path / "log").read_text("utf-8")


def test_faults_are_listed_on_demand() -> None:
    done = subprocess.run([*COMMAND, "--faults", "help"], capture_output=True, text=True, check=True)
    assert "trickle-headers[@n]" in done.stdout


def test_a_fault_that_nobody_knows_is_refused() -> None:
    done = subprocess.run([*COMMAND, "--faults", "explode"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no fault is named 'explode'" in done.stderr


def test_options_stand_over_the_environment_and_leave_the_rest_to_it() -> None:
    given = {"QUALIFY_FAKE_STEP_S": "1", "QUALIFY_FAKE_TTFT_S": "2", "PATH": "/bin"}
    assert environment(Options(step_s=0.5), given) == given | {"QUALIFY_FAKE_STEP_S": "0.5"}


def test_options_become_vllms_flags() -> None:
    flags = arguments(Options(port=7, mtp=True, tokens_per_event=3, flags=("--enforce-eager",)))
    assert flags[-1] == "--enforce-eager"
    assert flags[flags.index("--stream-interval") + 1] == "3"
    assert flags[flags.index("--port") + 1] == "7"
    assert "--speculative-config" in flags
