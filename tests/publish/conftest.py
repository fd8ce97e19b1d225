"""A bundle to publish, a pull request to publish it on, and a clock that never waits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle
from harness.evidence.manifest import seal
from harness.publish.evidence import Publication, Target, publication
from harness.publish.github import GitHub
from harness.publish.publish import Options
from harness.publish.token import Token
from harness.publish.waiting import Patience
from harness.workflow import judge_and_report
from tests.judge.bundles import Session
from tests.publish.github import REPOSITORY, TOKEN, GitHubState, serving
from tests.report.locks import PREWARM, write_locks

TARGET = Target(REPOSITORY, PREWARM.number)


@dataclass
class Clock:
    """Time as the tests have it."""

    time: float = 1_800_000_000.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    def patience(self, bound_s: float = 300.0) -> Patience:
        return Patience(bound_s, now=lambda: self.time, sleep=self.sleep)


def make_bundle(root: Path) -> Bundle:
    """A small session of the prewarm, judged and sealed."""
    bundle = Session(root).both(armed=True).build()
    write_locks(bundle)
    seal(bundle.root)
    judge_and_report(bundle)
    return bundle


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Only to be read."""
    return make_bundle(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="session")
def evidence(bundle: Bundle) -> Publication:
    return publication(bundle, TARGET)


@pytest.fixture
def state() -> Iterator[GitHubState]:
    with serving(GitHubState(head=PREWARM.head, commits={PREWARM.head})) as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def github(state: GitHubState, clock: Clock) -> GitHub:
    return GitHub(state.url, Token(TOKEN, "a test"), clock.patience())


@pytest.fixture
def options() -> Options:
    return Options(TARGET, send=True)


def moved(what: Publication, **entry: str) -> Publication:
    """Other evidence about the same pull request."""
    return dataclasses.replace(what, entry=dataclasses.replace(what.entry, **entry))
