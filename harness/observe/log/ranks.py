"""Which rank counts where each prints the same line; notes/vllm.md 1.3 has who prints what."""

from __future__ import annotations

from collections.abc import Mapping

from harness.observe.log.event import Event
from harness.observe.log.process import parse_process

MOST_PROCESSES = 4096
"""Names of processes that are told apart: strangers choose them, and memory must not grow with a log."""


class PerProcess:
    """The last line of a kind, per process."""

    def __init__(self) -> None:
        self._last: dict[str, Event] = {}

    def feed(self, event: Event) -> None:
        """The next line of this kind."""
        if event.process in self._last or len(self._last) < MOST_PROCESSES:
            self._last[event.process] = event

    def first_rank(self) -> Event | None:
        """Rank 0's line: memory and loading are its to tell."""
        return min(self._last.values(), key=lambda e: (e.speaker.order, e.offset), default=None)

    def least(self, name: str) -> Event | None:
        """The line with the least value: what every rank can have."""
        return min(self._last.values(), key=lambda e: float(e.values[name]), default=None)

    def most(self, name: str) -> Event | None:
        """The line with the greatest value: what all have to wait for."""
        return max(self._last.values(), key=lambda e: float(e.values[name]), default=None)

    def engines(self) -> list[Event]:
        """The lines of data-parallel engines, whose sizes add up; of others the last one."""
        engines = engine_lines(self._last)
        return engines or sorted(self._last.values(), key=lambda e: e.offset)[-1:]

    def get(self, process: str) -> Event | None:
        """The last line of a process."""
        return self._last.get(process)

    def __len__(self) -> int:
        return len(self._last)


def engine_lines(found: Mapping[str, Event]) -> list[Event]:
    """Of lines by process, those of engines."""
    return [e for name, e in found.items() if "EngineCore" in parse_process(name).role]
