"""Ready means: healthy, the right model, and one request served in full. Each is a stage of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import requests

from harness.launch.launcher import LaunchFailed, Server

POLL_S = 0.05
DEATH_SHOWS_S = 3.0
"""A server breaks its connections off this much before its process is seen to have ended."""


class Stage(Protocol):
    """One condition of readiness."""

    @property
    def name(self) -> str:
        """As the timeline and a failure call it."""

    @property
    def timeout_s(self) -> float:
        """How long the condition may take, in seconds."""

    def passed(self, server: Server) -> bool:
        """True once the condition holds; False asks for another look.

        Raises:
            LaunchFailed: it never will.
        """


@dataclass(frozen=True)
class Healthy:
    """`/health` answers 200."""

    timeout_s: float
    name: str = "health"

    def passed(self, server: Server) -> bool:
        """See `Stage.passed`."""
        try:
            return _get(f"{server.base_url}/health", self.timeout_s).status_code == 200
        except requests.RequestException:
            return False


@dataclass(frozen=True)
class ModelNamed:
    """`/v1/models` names the model that was asked for: not another server on a port we thought free."""

    model: str
    timeout_s: float
    name: str = "model"

    def passed(self, server: Server) -> bool:
        """See `Stage.passed`."""
        try:
            answer = _get(f"{server.base_url}/v1/models", self.timeout_s)
            served = [str(m["id"]) for m in answer.json()["data"]]
        except (requests.RequestException, ValueError, KeyError, TypeError):
            return False
        if self.model not in served:
            raise LaunchFailed(self.name, f"the server names {served}, not `{self.model}`; is another server there?")
        return True


@dataclass(frozen=True)
class FirstRequestServed:
    """One short completion comes back with the right number of tokens.

    A server can be healthy and die of its first request (vLLM on a CPU with a head size of 16).
    """

    serve: Callable[[], str | None]
    """Sends the request; returns None, or what was wrong with the answer."""
    timeout_s: float
    name: str = "first request"

    def passed(self, server: Server) -> bool:
        """See `Stage.passed`."""
        del server
        fault = self.serve()
        if fault is not None:
            raise LaunchFailed(self.name, fault)
        return True


def wait_until_ready(server: Server, stages: tuple[Stage, ...], passed: Callable[[str], None]) -> None:
    """Go through the stages in order; `passed` is told each one's name the moment it holds.

    Raises:
        LaunchFailed: the server died, or a stage failed or took too long.
    """
    for stage in stages:
        deadline = time.monotonic() + stage.timeout_s
        while True:
            try:
                done = stage.passed(server)
            except LaunchFailed as e:
                # The first request fails because the server died of it: then that is the reason.
                raise LaunchFailed(stage.name, _death(server, grace_s=DEATH_SHOWS_S) or e.reason) from None
            # Asked of a stage that passed, too: another server on the port may have answered for a dead one.
            if death := _death(server):
                raise LaunchFailed(stage.name, death)
            if done:
                break
            if time.monotonic() > deadline:
                raise LaunchFailed(
                    stage.name, f"not passed within {stage.timeout_s:g} s; raise timeouts.* if it is slow"
                )
            time.sleep(POLL_S)
        passed(stage.name)


def _get(url: str, timeout_s: float) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False  # neither a proxy nor a .netrc of the user's has a part in this
        return session.get(url, timeout=min(5.0, timeout_s), allow_redirects=False)


def _death(server: Server, grace_s: float = 0.0) -> str | None:
    deadline = time.monotonic() + grace_s
    while True:
        if exit_ := server.ended():
            return f"the server ended by itself ({exit_.how})"
        if time.monotonic() >= deadline:
            return None
        time.sleep(POLL_S)
