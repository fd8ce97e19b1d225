"""What the groups of commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Protocol

Command = Callable[[argparse.Namespace], int]
"""Runs a command and returns its exit code."""


class Commands(Protocol):
    """Where a group puts its commands: argparse keeps its own class for that private."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:  # noqa: A002  # argparse's word
        """A parser for one more command."""
