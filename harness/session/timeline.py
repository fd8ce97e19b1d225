"""The timeline of a launch: moments on the monotonic clock, each with the wall clock of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.evidence.bundle import append_record
from harness.records import Mark
from harness.words import Step


class Timeline:
    """Marks of one launch, in a file that has each as soon as it was made."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.last_step: Step | None = None
        """The step that began last."""

    def mark(
        self,
        name: str,
        source: str,
        *,
        step: Step | None = None,
        context_tokens: int | None = None,
        mono_ns: int | None = None,
    ) -> None:
        """Put down a moment: now, or `mono_ns`, which is past."""
        now = time.monotonic_ns()
        mono_ns = now if mono_ns is None else mono_ns
        wall_text = wall(ago_ns=now - mono_ns)
        mark = Mark(mark=name, mono_ns=mono_ns, wall=wall_text, source=source, step=step, context_tokens=context_tokens)
        append_record(self._file, mark)

    @contextlib.contextmanager
    def step(self, step: Step, context_tokens: int | None) -> Iterator[None]:
        """A step of the course, between two marks, however it ends."""
        self.last_step = step
        self.mark("step begins", "course", step=step, context_tokens=context_tokens)
        try:
            yield
        finally:
            self.mark("step ends", "course", step=step, context_tokens=context_tokens)


def wall(ago_ns: int = 0) -> str:
    """The wall clock so long ago: UTC, ISO 8601, milliseconds."""
    return (datetime.now(UTC) - timedelta(microseconds=ago_ns / 1000)).isoformat(timespec="milliseconds")
