"""Which record each file of a bundle holds. What is in no line here is evidence too, and is hashed only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from pydantic import BaseModel

from harness.checks.record import CheckRun
from harness.image.identity import Verification
from harness.observe.gpu.journal import COLUMNS as GPU_COLUMNS
from harness.observe.sampler import COLUMNS as HOST_COLUMNS
from harness.records import (
    CheckRecord,
    FrozenPrompts,
    GpuEvent,
    LaunchRecord,
    Lock,
    Mark,
    OutputRecord,
    Plan,
    RequestRecord,
    Run,
    Verdict,
    Window,
)
from harness.records.client import SelfTest
from harness.records.statistics import Look, Rerun


class Form(StrEnum):
    """How a file is written."""

    RECORD = "one record"
    LINES = "a record per line"
    JSON = "a JSON document"
    TIMES = "rows of end offset and time"
    TRUTH = "the rule of a forged model"
    LOCK = "the lock of a stack"
    TRACE = "lines that have a reader of their own"
    SAMPLES = "columns"
    JOURNAL = "lines that columns are made of"
    SCRAPE = "a scrape"
    LOG = "a server's log"
    OUTPUT = "what a check printed or reported"


@dataclass(frozen=True)
class FileKind:
    """What the files of a pattern hold."""

    pattern: str
    form: Form
    record: type[BaseModel] | None = None
    columns: tuple[str, ...] = ()

    def fits(self, name: str) -> bool:
        """True for a path of this pattern, folder by folder."""
        ours, theirs = self.pattern.split("/"), name.split("/")
        return len(ours) == len(theirs) and all(map(fnmatchcase, theirs, ours))

    @property
    def types(self) -> Mapping[str, str]:
        """Column -> its type."""
        return {name: "string" if name in ("gpu", "process") else "int64" for name in self.columns}


KINDS: tuple[FileKind, ...] = (
    FileKind("run.json", Form.RECORD, Run),
    FileKind("plan.json", Form.RECORD, Plan),
    FileKind("prompts.json", Form.RECORD, FrozenPrompts),
    FileKind("selftest.json", Form.RECORD, SelfTest),
    FileKind("verdict.json", Form.RECORD, Verdict),
    FileKind("ledger*.json", Form.JSON),
    FileKind("statement.*json*", Form.JSON),
    FileKind("pipe/*.jsonl", Form.TRACE),
    FileKind("locks/*.truth.json", Form.TRUTH),
    FileKind("locks/*.json", Form.RECORD, Lock),
    FileKind("locks/*/lock.json", Form.LOCK),
    FileKind("looks/*.json", Form.RECORD, Look),
    FileKind("reruns/*.json", Form.RECORD, Rerun),
    FileKind("launches/*/launch.json", Form.RECORD, LaunchRecord),
    FileKind("launches/*/image.json", Form.RECORD, Verification),
    FileKind("launches/*/container.json", Form.JSON),
    FileKind("launches/*/caches.json", Form.JSON),
    FileKind("launches/*/timeline.jsonl", Form.LINES, Mark),
    FileKind("launches/*/requests.jsonl", Form.LINES, RequestRecord),
    FileKind("launches/*/outputs.jsonl", Form.LINES, OutputRecord),
    FileKind("launches/*/windows.jsonl", Form.LINES, Window),
    FileKind("launches/*/checks.jsonl", Form.LINES, CheckRecord),
    FileKind("launches/*/gpu.jsonl", Form.LINES, GpuEvent),
    FileKind("launches/*/server.log", Form.LOG),
    FileKind("launches/*/server.log.times.jsonl", Form.TIMES),
    FileKind("launches/*/gpu.parquet", Form.SAMPLES, columns=GPU_COLUMNS),
    FileKind("launches/*/host.parquet", Form.SAMPLES, columns=HOST_COLUMNS),
    FileKind("launches/*/*.journal", Form.JOURNAL),
    FileKind("launches/*/metrics/*.prom", Form.SCRAPE),
    FileKind("launches/*/trace/*.jsonl", Form.TRACE),
    FileKind("checks/*/*/check.json", Form.RECORD, CheckRun),
    FileKind("checks/*/*/container.json", Form.JSON),
    FileKind("checks/*/*/output.log.times.jsonl", Form.TIMES),
    FileKind("checks/*/*/output.log", Form.OUTPUT),
    FileKind("checks/*/*/junit.xml", Form.OUTPUT),
    FileKind("checks/*/*/ruff.json", Form.OUTPUT),
)
"""The first pattern that fits counts."""


def kind_of(name: str) -> FileKind | None:
    """What a file holds; None where nothing reads it."""
    return next((kind for kind in KINDS if kind.fits(name)), None)
