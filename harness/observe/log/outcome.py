"""How a start ended: ready, failed and why, or nothing that the log shows; and what went wrong after it."""

from __future__ import annotations

from harness.observe.log.event import Event, Kind
from harness.observe.log.forms.failures import Failure
from harness.observe.log.ranks import MOST_PROCESSES

PROGRESS = frozenset(
    {
        Kind.ENGINE_BANNER,
        Kind.LOAD_BEGIN,
        Kind.WEIGHTS,
        Kind.MODEL_LOADED,
        Kind.COMPILED,
        Kind.PROFILED,
        Kind.KV_MEMORY,
        Kind.KV_TOKENS,
        Kind.GRAPHS,
        Kind.JIT_ARMED,
        Kind.ENGINE_INIT,
        Kind.HTTP_BEGIN,
    }
)
"""Lines that a process prints only while it lives: an error of its own before them was none that ended it."""


class Outcome:
    """Folds events into the outcome, in the order of the log; memory does not grow with it."""

    def __init__(self) -> None:
        self.ready: Event | None = None
        self.stopping: Event | None = None
        self.errors_after_ready = 0
        self.first_error_after_ready: Event | None = None
        self._named: dict[str, Event] = {}
        """First error of a known class, per process."""
        self._raised: dict[str, Event] = {}
        """First error of no known class, per process."""
        self._ended: Event | None = None
        """First line that says that a process came to its end."""
        self._died: Event | None = None
        """First line by which an engine tells the death of a worker that it did not end."""

    def feed(self, event: Event) -> None:
        """The next event."""
        if event.kind is Kind.HTTP_READY and self.ready is None:
            self.ready = event
            self._forget()
        elif event.kind is Kind.SHUTDOWN and self.ready and not self.stopping:
            self.stopping = event
        elif event.kind in PROGRESS and self.ready is None:
            for found in (self._named, self._raised):
                found.pop(event.process, None)
                found.pop("", None)
            if self._ended and self._ended.process in ("", event.process):
                self._ended = None
            if self._died and self._died.process == event.process:
                self._died = None
        elif event.kind is Kind.ERROR and not self.stopping:
            self._error(event)

    @property
    def failed(self) -> bool:
        """The start failed, or the engine died after it."""
        return self._ended is not None

    @property
    def cause(self) -> Event | None:
        """The line that names what went wrong: the first of a known class, else the first exception.

        Where a worker died, exceptions about a lost peer and those after its death follow from it, and name nothing.
        """
        if not self.failed:
            return None
        named, raised = self._named.values(), [e for e in self._raised.values() if not self._follows(e)]
        for found in (named, raised):
            if found:
                return min(found, key=lambda e: e.offset)
        return self._died or self._ended

    @property
    def failure(self) -> Failure | None:
        """The class of the failure, or None where the log shows none."""
        cause = self.cause
        if cause is None:
            return None
        if self.ready:
            return Failure.DEATH
        return Failure(str(cause.values.get("failure", Failure.OTHER)))

    def _follows(self, event: Event) -> bool:
        died = self._died
        return died is not None and ("lost" in event.values or event.offset > died.offset)

    def _error(self, event: Event) -> None:
        if self.ready:
            self.errors_after_ready += 1
            self.first_error_after_ready = self.first_error_after_ready or event
        known, raised = "failure" in event.values, "exception" in event.values
        found = self._named if known else self._raised
        if (known or raised) and len(found) < MOST_PROCESSES:
            found.setdefault(event.process, event)
        if event.values.get("fatal") == "worker" and "who" in event.values:
            self._died = self._died or event
        # An exception that no logger wrote left its process by the top. That ends a start; once the server
        # serves, only an engine's end is one.
        uncaught = (known or raised) and not event.level and not self.ready
        if self._ended is None and ("fatal" in event.values or uncaught):
            self._ended = event

    def _forget(self) -> None:
        self._named.clear()
        self._raised.clear()
        self._ended = self._died = None
