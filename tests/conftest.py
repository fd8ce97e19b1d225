"""Fixtures that tests of several folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest_plugins = ["tests.containers.fixtures"]


@pytest.fixture(scope="module", autouse=True)
def _no_history_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a host remembers of its sessions must neither reach a test nor be reached by one."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.getbasetemp() / "state-of-a-module" / os.urandom(8).hex())
    yield
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture(autouse=True)
def _no_history_of_other_tests(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each test begins on a host that remembers nothing."""
    state = tmp_path_factory.getbasetemp() / "state-of-a-test" / os.urandom(8).hex()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.delenv("QUALIFY_HISTORY", raising=False)
