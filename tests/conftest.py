"""Fixtures that tests of several folders share."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

pytest_plugins = ["tests.containers.fixtures"]

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
