"""What a check leaves in the bundle, per arm: checks/CHECK/ARM/."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from harness.config.checks import Check, Kind
from harness.evidence.bundle import Bundle, read_record
from harness.records import SCHEMA_VERSION, ContainerFacts, Exit, Record
from harness.words import Arm

REPORTS: dict[Kind, str] = {Kind.PYTEST: "junit.xml", Kind.RUFF: "ruff.json"}
"""Files that a tool writes besides its output."""


class Source(Record):
    """What a check gets of its component in one arm, with what it takes to read the paths that it prints."""

    files: tuple[str, ...] = ()
    """Installed files that a patch of either arm touches and that are there in this arm: paths in the image."""
    tests: tuple[str, ...] = ()
    """Tests among what is not installed, as the candidate's lock holds them: paths in the container."""
    brought: tuple[str, ...] = ()
    """Those of them that the control's tree lacks: there they cannot have failed before. Paths of the repository."""
    gone: tuple[str, ...] = ()
    """Tests of the control's lock that the candidate's lacks. Paths of the repository."""
    roots: dict[str, str] = Field({})
    """Folder in the container -> folder of the repository; '' is its root."""
    packages: tuple[str, ...] = ()
    """Names under which the component is imported."""


class CheckRun(Record):
    """One check in one arm, as it went (check.json). It is written last: where it is missing, the check has no end."""

    schema_version: Literal[1] = SCHEMA_VERSION
    check: Check
    arm: Arm
    not_run: str | None = None
    """Why there was nothing to run, though nothing is wrong."""
    source: Source = Source()
    command: tuple[str, ...] = ()
    """As started, with the options that the harness adds."""
    folder: str = ""
    env: dict[str, str] = Field({})
    """Values of credentials removed."""
    image: str = ""
    begin_ns: int
    begin_wall: str
    end_ns: int
    exit: Exit | None = None
    container: ContainerFacts | None = None
    stopped: str | None = None
    """Why the harness ended it: its time, or its output, was too long."""
    fault: str | None = None
    """What kept it from being started, or its end from being seen: that tells nothing about an arm."""
    output_sha256: str | None = None
    """Over the bytes as the container gave them, hashed while they were written."""
    output_bytes: int | None = None
    report_sha256: str | None = None
    """Of junit.xml or ruff.json as it was taken over; None where the tool left none that can be."""
    report_fault: str | None = None
    """Why its report was not taken over."""


class CheckDir:
    """The folder of one check in one arm."""

    def __init__(self, bundle: Bundle, check: Check, arm: Arm) -> None:
        self.root = bundle.checks_dir / check.name / arm
        self._report = REPORTS.get(check.kind)

    @property
    def record_file(self) -> Path:
        """How it went."""
        return self.root / "check.json"

    @property
    def output_file(self) -> Path:
        """What it printed, raw."""
        return self.root / "output.log"

    @property
    def output_times_file(self) -> Path:
        """When each piece of that arrived: rows of [end offset, mono_ns]."""
        return self.root / "output.log.times.jsonl"

    @property
    def container_file(self) -> Path:
        """The engine's own description of the container."""
        return self.root / "container.json"

    @property
    def report_file(self) -> Path | None:
        """What the tool wrote besides, None for a tool that only prints."""
        return self.root / self._report if self._report else None

    def record(self) -> CheckRun | None:
        """How it went, or None where it has no end.

        Raises:
            BundleError: newer or broken.
        """
        return read_record(self.record_file, CheckRun) if self.record_file.is_file() else None
