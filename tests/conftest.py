"""Fixtures that tests of several folders share."""

from __future__ import annotations

pytest_plugins = ["tests.containers.fixtures"]
