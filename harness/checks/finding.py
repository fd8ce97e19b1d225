"""What a check showed in one arm, whatever tool it was."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

LINE_NUMBER = re.compile(r"(?<=\bline )\d+")
"""In a message (`already defined on line 7`): it moves with the file, and the finding stays the same."""


@dataclass(frozen=True)
class Finding:
    """One complaint of a tool about the source."""

    file: str
    """Path in the repository."""
    code: str
    message: str
    line: int | None = None

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes it the same finding in the other arm; equal ones are told apart by their number alone."""
        return self.file, self.code, LINE_NUMBER.sub("#", self.message)

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}{f' [{self.code}]' if self.code else ''}" if place else self.message


class State(StrEnum):
    """How a test ended; the later one counts where a test has several."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class Node:
    """One test, by its node id."""

    state: State
    message: str = ""
    """First line of why it did not pass."""
    missing: str | None = None
    """Module that is no part of the component and could not be imported, where that is why it failed."""


@dataclass(frozen=True)
class Uncollected:
    """A test module that could not be imported."""

    message: str
    missing: str | None = None
    """Module or library that is no part of the component and is missing; None where its own code is the reason."""


@dataclass(frozen=True)
class Fault:
    """Why the tool's answer cannot be used."""

    reason: str
    environment: bool
    """True where the image or the engine is the reason whatever the source is; else the source may be."""


@dataclass(frozen=True)
class Result:
    """What one arm's run showed."""

    findings: tuple[Finding, ...] = ()
    tests: Mapping[str, Node] = field(default_factory=dict)
    uncollected: Mapping[str, Uncollected] = field(default_factory=dict)
    """By their path in the repository."""
    fault: Fault | None = None
    cut_short: str | None = None
    """Why the tool did not look at everything, where it says so itself."""


def repository_path(path: str, folder: str, roots: Mapping[str, str]) -> str:
    """A path that a tool printed, as the repository has it; any other one as it is in the container.

    Args:
        path: absolute, or relative to `folder`.
        folder: the tool's working folder.
        roots: folders of the container by their place in the repository; the longest that fits counts.
    """
    absolute = posixpath.normpath(posixpath.join(folder, path))
    for root in sorted(roots, key=len, reverse=True):
        if absolute.startswith(f"{root}/"):
            return posixpath.join(roots[root], absolute[len(root) + 1 :])
    return absolute
