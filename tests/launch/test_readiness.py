"""Readiness: the stages in order, each with its own time, and what a failure says."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from harness.client.asks import Ask
from harness.client.completions import complete
from harness.launch import readiness
from harness.launch.launcher import LaunchFailed
from harness.launch.ports import free_port
from harness.launch.readiness import FirstRequestServed, Healthy, ModelNamed, Stage, wait_until_ready
from harness.observe.sampler import Usage
from harness.records import Exit
from tests.client.raw_server import raw_server, respond
from tests.launch.bench import Bench, Running, until


@dataclass
class Standing:
    """A server that neither starts nor ends."""

    base_url: str = "http://127.0.0.1:9"
    started_ns: int = 0
    exit: Exit | None = None

    def ended(self) -> Exit | None:
        return self.exit

    def effective_argv(self) -> tuple[str, ...] | None:
        return None

    def host_pids(self) -> tuple[int, ...]:
        return ()

    def usage(self) -> dict[str, Usage]:
        return {}

    def stop(self, grace_s: float) -> Exit:
        raise NotImplementedError(grace_s)

    def log_digest(self) -> tuple[str, int]:
        raise NotImplementedError

    def log_cpu_ns(self) -> int | None:
        raise NotImplementedError

    def container(self) -> None:
        return None


@dataclass
class After:
    """A stage that holds some time after it was first looked at."""

    name: str
    holds_after_s: float
    timeout_s: float
    looked: list[float] = field(default_factory=list)

    def passed(self, server: object) -> bool:
        del server
        self.looked.append(time.monotonic())
        return self.looked[-1] - self.looked[0] >= self.holds_after_s


def failure(server: object, *stages: Stage) -> LaunchFailed:
    with pytest.raises(LaunchFailed) as caught:
        wait_until_ready(server, stages, lambda _: None)  # type: ignore[arg-type]
    return caught.value


def asking(running: Running) -> Callable[[], str | None]:
    def serve() -> str | None:
        with requests.Session() as session:
            return complete(session, running.server.base_url, Ask("tiny", [1, 2, 3], 4, "s"), deadline_s=5).error

    return serve


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a server that is alive: the wait for its death need not be the real one."""
    monkeypatch.setattr(readiness, "DEATH_SHOWS_S", 0.1)


# --- the stages of a server -----------------------------------------------------------------------------


def test_each_stage_is_told_in_order_as_it_holds(bench: Bench, model: Path) -> None:
    running = bench.fake(model)
    told: list[str] = []
    stages = (Healthy(10), ModelNamed("tiny", 5), FirstRequestServed(asking(running), 5))
    wait_until_ready(running.server, stages, told.append)
    assert told == ["health", "model", "first request"]


def test_a_server_that_never_is_healthy_fails_in_the_set_time(bench: Bench, model: Path) -> None:
    running = bench.fake(model, "no-health")
    running.wait_for_log(b"startup complete")
    begin = time.monotonic()
    failed = failure(running.server, Healthy(0.3), ModelNamed("tiny", 5))
    assert 0.3 <= time.monotonic() - begin < 10
    assert (failed.stage, failed.reason) == ("health", "not passed within 0.3 s; raise timeouts.* if it is slow")


def test_a_port_that_accepts_and_says_nothing_fails_in_the_set_time() -> None:
    with raw_server(lambda connection: connection.recv(1)) as silent:
        begin = time.monotonic()
        assert failure(Standing(silent.url), Healthy(0.2)).stage == "health"
        assert time.monotonic() - begin < 10


@pytest.mark.usefixtures("_impatient")
def test_another_model_is_another_server(bench: Bench, model: Path) -> None:
    failed = failure(bench.fake(model, "wrong-model-name").server, Healthy(10), ModelNamed("tiny", 5))
    assert failed.stage == "model"
    assert failed.reason == "the server names ['wrong-tiny'], not `tiny`; is another server there?"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"data": [{}]}', b'{"data": 1}', b"<html>"])
def test_a_list_of_models_that_is_none_is_waited_for(body: bytes) -> None:
    with raw_server(lambda connection: respond(connection, 200, body)) as server:
        assert failure(Standing(server.url), ModelNamed("tiny", 0.1)).reason.startswith("not passed within")


def test_a_redirect_is_not_healthy() -> None:
    with (
        raw_server(lambda connection: respond(connection, 200, b"")) as other,
        raw_server(lambda connection: respond(connection, 307, b"", f"Location: {other.url}/health")) as server,
    ):
        assert failure(Standing(server.url), Healthy(0.2)).stage == "health"
        assert other.bodies == []


@pytest.mark.usefixtures("_impatient")
def test_an_answer_to_the_first_request_that_is_wrong_is_the_reason() -> None:
    failed = failure(Standing(), FirstRequestServed(lambda: "asked for 8 tokens, got 7", 5))
    assert str(failed) == "first request: asked for 8 tokens, got 7"


def test_no_proxy_of_the_users_stands_between(bench: Bench, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    wait_until_ready(bench.fake(model).server, (Healthy(5), ModelNamed("tiny", 2)), lambda _: None)


# --- a server that dies ---------------------------------------------------------------------------------


def test_a_death_while_starting_is_told_at_once_with_its_exit_code(bench: Bench, model: Path) -> None:
    failed = failure(bench.fake(model, "die-at-start").server, Healthy(60))
    assert (failed.stage, failed.reason) == ("health", "the server ended by itself (exit code 1)")


def test_a_death_by_a_signal_is_told_with_its_name(bench: Bench) -> None:
    failed = failure(bench.script("import os; os.kill(os.getpid(), 11)").server, Healthy(60))
    assert (failed.stage, failed.reason) == ("health", "the server ended by itself (signal SIGSEGV)")


def test_a_first_request_that_kills_the_server_is_told_as_its_death(bench: Bench, model: Path) -> None:
    running = bench.fake(model, "die-at-first-request")
    told: list[str] = []
    stages = (Healthy(10), FirstRequestServed(asking(running), 5))
    with pytest.raises(LaunchFailed, match=r"^first request: the server ended by itself \(exit code 1\)$"):
        wait_until_ready(running.server, stages, told.append)
    assert told == ["health"]


def test_another_server_on_the_port_does_not_answer_for_a_dead_one(bench: Bench, model: Path) -> None:
    other = bench.fake(model)
    other.wait_for_log(b"startup complete")
    dead = bench.script("raise SystemExit(98)", port=other.spec.port)
    until(dead.server.ended)
    failed = failure(dead.server, Healthy(5), ModelNamed("tiny", 5))
    assert (failed.stage, failed.reason) == ("health", "the server ended by itself (exit code 98)")


# --- time -----------------------------------------------------------------------------------------------


def test_every_stage_has_its_own_time_from_its_own_begin() -> None:
    told: list[str] = []
    wait_until_ready(Standing(), (After("a", 0.25, 0.4), After("b", 0.25, 0.4)), told.append)
    assert told == ["a", "b"]


def test_the_stage_that_took_too_long_is_named() -> None:
    failed = failure(Standing(), After("a", 0.1, 5), After("b", 5, 0.1), After("c", 0, 5))
    assert (failed.stage, failed.reason) == ("b", "not passed within 0.1 s; raise timeouts.* if it is slow")
