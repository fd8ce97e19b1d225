"""What a self-test came to: selftest.json beside the bundles of its controls."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from harness.records.base import SCHEMA_VERSION, Record
from harness.words import ExitCode, Word


class Outcome(StrEnum):
    """What became of a control."""

    CAUGHT = "caught"
    NOT_CAUGHT = "NOT CAUGHT"
    PASSED = "passed"
    """Equal arms."""
    FALSE_ALARM = "FALSE ALARM"
    SETUP_FAILURE = "setup failure"
    """It could not run here, so nobody knows."""


class Got(Record):
    """A row that the verdict has, of those that were expected."""

    row: str
    word: Word
    reason: str


class Result(Record):
    """One control."""

    control: str
    worse: str
    engine: str
    expected: tuple[str, ...]
    got: tuple[Got, ...]
    verdict: Word | None
    """None where the session left none."""
    outcome: Outcome
    why: str
    """What is missing, or why it could not run; empty where all is as expected."""
    bundle: str | None
    """Folder of its bundle, beside this file; None where none was opened."""
    before: tuple[str, ...] = ()
    """Bundles of the same control that measured nothing, since the machine was too busy: it was run once more."""
    command: tuple[str, ...]
    seconds: float


class SelfTestReport(Record):
    """Every control of one self-test (selftest.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    harness: str
    """Commit, with a mark where files were changed since."""
    profile: str
    """Name, or the built-in one's where no engine of a profile was asked."""
    planned: tuple[str, ...]
    """Names of the controls; one without a result was not come to."""
    results: tuple[Result, ...]

    @property
    def complete(self) -> bool:
        """Every planned control has a result."""
        return tuple(r.control for r in self.results) == self.planned

    @property
    def exit_code(self) -> ExitCode:
        """1 where a fault was not seen or none was there, 3 where a control could not run, else 0."""
        outcomes = {r.outcome for r in self.results}
        if outcomes & {Outcome.NOT_CAUGHT, Outcome.FALSE_ALARM}:
            return ExitCode.FAIL
        unknown = Outcome.SETUP_FAILURE in outcomes or not self.complete or not self.results
        return ExitCode.SETUP_FAILURE if unknown else ExitCode.PASS
