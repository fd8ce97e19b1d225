"""How a container ended, from the engine's own description of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.launch.docker.outcome import as_evidence, exit_of, facts_of
from harness.records import Exit

STARTED = "2026-08-09T10:11:12.123456789Z"


def inspect(**state: object) -> dict[str, Any]:
    """A description in the form of Docker 20.10."""
    return {
        "Id": "c" * 64,
        "Image": "sha256:" + "1" * 64,
        "RestartCount": 0,
        "State": {
            "Status": "exited",
            "Running": False,
            "OOMKilled": False,
            "ExitCode": 0,
            "Error": "",
            "StartedAt": STARTED,
            "FinishedAt": "0001-01-01T00:00:00Z",
            **state,
        },
        "Config": {"Image": "name@sha256:" + "2" * 64, "Env": ["A=1", "HF_TOKEN=hf_x", "EMPTY=", "URL=a=b"]},
        "HostConfig": {"Runtime": "runc", "NetworkMode": "qualify-1"},
        "NetworkSettings": {"Networks": {}},
    }


def ended(*signals: int, asked: bool = False, head: bytes = b"", **state: object) -> Exit:
    return exit_of(inspect(**state), asked=asked, signals=signals, log_head=head)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (ended(ExitCode=1), "exit code 1"),
        (ended(ExitCode=137), "exit code 137"),
        (ended(15, ExitCode=143, asked=True), "signal SIGTERM"),
        (ended(15, 9, ExitCode=137, asked=True), "signal SIGKILL"),
        (ended(15, ExitCode=0, asked=True), "exit code 0"),
        (ended(15, ExitCode=137, asked=True), "exit code 137"),
        (
            ended(OOMKilled=True, ExitCode=137),
            "out of memory: killed by the kernel's OOM killer, exit code 137",
        ),
        (ended(OOMKilled=True, ExitCode=1), "out of memory: killed by the kernel's OOM killer, exit code 1"),
        (ended(ExitCode=128, Error="exec: not found"), "exec: not found, exit code 128"),
        (
            ended(ExitCode=127, head=b"[FATAL tini (7)] exec /x failed: No such file or directory\n"),
            "exec /x failed: No such file or directory, exit code 127",
        ),
        (ended(ExitCode=127, head=b"sh: 1: vllm: not found\n"), "exit code 127"),
        (ended(9, ExitCode=137), "somebody told the engine to send SIGKILL, signal SIGKILL"),
        (ended(15, ExitCode=0), "somebody told the engine to send SIGTERM, exit code 0"),
    ],
)
def test_every_end_is_told_apart(found: Exit, told: str) -> None:
    assert found.how == told


def test_a_time_that_has_not_come_is_none() -> None:
    facts = facts_of(inspect(), {"RepoDigests": None}, engine_version="20.10", gpus=("GPU-1",))
    assert (facts.started_wall, facts.finished_wall) == (STARTED, None)
    assert (facts.repo_digests, facts.gpus) == ((), ("GPU-1",))


def test_evidence_holds_everything_but_credentials() -> None:
    description = inspect()
    kept = as_evidence(description)
    assert kept["Config"]["Env"] == ["A=1", "EMPTY=", "HF_TOKEN=<redacted>", "URL=a=b"]
    assert {k: v for k, v in kept.items() if k != "Config"} == {k: v for k, v in description.items() if k != "Config"}
    assert "hf_x" in json.dumps(description), "the original is left as it was"


def test_evidence_does_not_name_the_host() -> None:
    description = inspect()
    description["Config"]["Hostname"] = "my-host"
    description["HostConfig"]["NetworkMode"] = "host"
    assert "my-host" not in json.dumps(as_evidence(description))
