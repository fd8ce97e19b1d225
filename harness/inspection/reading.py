"""A log, read once: its events as they come, its facts and phases afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from harness.errors import BundleError
from harness.evidence.bundle import LaunchDir
from harness.inspection.subjects import NotALogError, Subject, opened
from harness.judge.read import read_launch
from harness.judge.rows.startup import start_phases, start_s
from harness.observe.log import Event, events, read_chunks
from harness.observe.log.fact import Facts
from harness.observe.log.facts import Fold
from harness.observe.log.stamps import StampPhases
from harness.observe.phases import unexplained_s

MOST_HELD = 10_000
FROM_STAMPS = "from the log's own stamps of whole seconds"
FROM_MARKS = "launcher, log and HTTP on one clock"


@dataclass(frozen=True)
class Stretch:
    """A phase of the start-up, in seconds; the last one is what no phase explains, where that is known."""

    name: str
    seconds: float


class Reading:
    """What one pass over a log gives."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._fold, self._stamped = Fold(), StampPhases()

    def events(self) -> Iterator[Event]:
        """Events of the log; those before it is known to be one of vLLM are held back until it is.

        Raises:
            NotALogError: it cannot be read, or is none; raised before the first event in nearly every case.
        """
        held: list[Event] = []
        with opened(self.subject) as stream:
            for event in events(read_chunks(stream)):
                self._fold.feed(event)
                self._stamped.feed(event)
                if not self._fold.is_log and len(held) < MOST_HELD:
                    held.append(event)
                    continue
                yield from held
                held.clear()
                yield event
        if not self._fold.is_log:
            what = "no line of it has a form that vLLM's logger or server prints"
            raise NotALogError(f"{self.subject.name} is no log of vLLM: {what}")

    def facts(self) -> Facts:
        """Facts of what was read."""
        return self._fold.facts()

    def phases(self) -> tuple[str, list[Stretch]]:
        """Phases of the start-up, and where their times are from: the harness's where it ran the server."""
        path = self.subject.path
        if path and (path.parent / "server.log.times.jsonl").is_file():
            with suppress(BundleError):  # the log of a broken bundle is a log all the same
                launch = read_launch(LaunchDir(path.parent))
                found, total = start_phases(launch), start_s(launch)
                stretches = [Stretch(p.name, round(p.seconds, 6)) for p in found]
                if total is not None:
                    stretches.append(Stretch("unexplained", round(unexplained_s(total, found), 6)))
                return FROM_MARKS, stretches
        return FROM_STAMPS, [Stretch(p.name, p.seconds) for p in self._stamped.phases()]
