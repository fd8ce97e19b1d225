"""Fixtures that tests of several folders share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest_plugins = ["tests.containers.fixtures"]

# An example has no time limit of its own: where other workers have the cores, the soundest is slow now and then.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

OWN_FOLDERS = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """No test may write to the user's own session ledger, or sign with his key; what tests start inherits that."""
    folder = config.stash[OWN_FOLDERS] = tempfile.mkdtemp(prefix="qualify-tests-")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        os.environ[name] = folder
    for name in ("QUALIFY_LEDGER", "QUALIFY_KEY"):
        os.environ.pop(name, None)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove them."""
    shutil.rmtree(config.stash[OWN_FOLDERS], ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _no_history_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a host remembers of its sessions must neither reach a test nor be reached by one."""
    before = os.environ["XDG_STATE_HOME"]
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.getbasetemp() / "state-of-a-module" / os.urandom(8).hex())
    yield
    os.environ["XDG_STATE_HOME"] = before


@pytest.fixture(autouse=True)
def _no_history_of_other_tests(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each test begins on a host that remembers nothing."""
    state = tmp_path_factory.getbasetemp() / "state-of-a-test" / os.urandom(8).hex()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.delenv("QUALIFY_HISTORY", raising=False)
