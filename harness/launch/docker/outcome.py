"""What the engine says about a container, read from its own description of it."""

from __future__ import annotations

import copy
import signal
from collections.abc import Sequence
from typing import Any

from harness.launch.environment import redacted
from harness.records import ContainerFacts, Exit

Json = dict[str, Any]

NOT_EXECUTED = (126, 127)
"""Exit codes of docker-init when it cannot execute the server."""
INIT_FATAL = b"[FATAL tini ("
FROM_OUTSIDE = "somebody told the engine to send"
"""Begins the error of a container that was stopped by another hand than ours."""
NEVER = "0001-01-01T00:00:00Z"
"""How the engine writes a time that has not come."""


def is_running(inspect: Json) -> bool:
    """True while the engine counts the container as running."""
    return bool(inspect["State"]["Running"])


def exit_of(inspect: Json, *, asked: bool, signals: Sequence[int], log_head: bytes) -> Exit:
    """How a container ended.

    Args:
        inspect: its description, after the end.
        asked: whether this harness stopped it.
        signals: what the engine was told to send to it. Only such a signal is named: 137 and 143
            are also codes with which any program may exit.
        log_head: the first bytes of its output, where docker-init says what it could not execute.
    """
    state = inspect["State"]
    code = int(state["ExitCode"])
    error = state.get("Error") or None
    if code in NOT_EXECUTED and log_head.startswith(INIT_FATAL):
        error = log_head.split(b"\n", 1)[0].partition(b"] ")[2].decode("utf-8", "backslashreplace")
    if signals and not asked:
        error = f"{FROM_OUTSIDE} {signal.Signals(signals[0]).name}"
    sent = next((s for s in reversed(signals) if code == 128 + s), None)
    return Exit(
        code=code if sent is None else None,
        signal=None if sent is None else signal.Signals(sent).name,
        asked=asked,
        oom_killed=bool(state["OOMKilled"]),
        error=error,
    )


def facts_of(inspect: Json, image: Json, *, engine_version: str, gpus: Sequence[str]) -> ContainerFacts:
    """The container's identities, as read back from itself and not from what was asked for."""
    state, host = inspect["State"], inspect["HostConfig"]
    return ContainerFacts(
        container_id=inspect["Id"],
        image_reference=inspect["Config"]["Image"],
        image_id=inspect["Image"],
        repo_digests=tuple(image.get("RepoDigests") or ()),
        engine_version=engine_version,
        runtime=host.get("Runtime") or "default",
        network=host["NetworkMode"] if host["NetworkMode"] in ("host", "none") else "internal",
        gpus=tuple(gpus),
        devices=tuple(device["PathOnHost"] for device in host.get("Devices") or ()),
        started_wall=_time(state["StartedAt"]),
        finished_wall=_time(state["FinishedAt"]),
        restarts=inspect.get("RestartCount"),
    )


def address_of(inspect: Json, network: str) -> str | None:
    """The container's address in its network; None once it has ended."""
    return inspect["NetworkSettings"]["Networks"].get(network, {}).get("IPAddress") or None


def environment_of(description: Json) -> dict[str, str]:
    """The environment in an image's or a container's description."""
    return dict(entry.split("=", 1) for entry in description["Config"].get("Env") or () if "=" in entry)


def as_evidence(inspect: Json) -> Json:
    """The description as it goes into the bundle: whole, but for credentials and the host's name."""
    kept = copy.deepcopy(inspect)
    if inspect["HostConfig"]["NetworkMode"] == "host":
        kept["Config"]["Hostname"] = "<redacted>"  # in the host's network it is the host's
    kept["Config"]["Env"] = [f"{name}={value}" for name, value in redacted(environment_of(inspect)).items()]
    return kept


def _time(text: str) -> str | None:
    return None if text == NEVER else text
