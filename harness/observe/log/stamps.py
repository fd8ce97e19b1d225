"""Start-up phases from a log's own times, for a log that nobody timed.

vLLM stamps whole seconds, without a year and in the host's zone: good to a second, and only said to be that.
Where the harness ran the server, `harness.observe.phases` has times of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from harness.observe.log.event import Event, Kind

_STAMP = re.compile(r"(?:(?P<year>\d{4})-)?(?P<rest>\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
LEAP_YEAR = 2000
"""Stands in for the year that most versions do not print: one that has every day."""

ENDS: tuple[tuple[str, frozenset[Kind]], ...] = (
    ("arguments, to the engine's banner", frozenset({Kind.ENGINE_BANNER})),
    ("workers, to the model", frozenset({Kind.LOAD_BEGIN})),
    ("model and weights", frozenset({Kind.WEIGHTS, Kind.MODEL_LOADED})),
    ("compile and profile, to KV sizing", frozenset({Kind.KV_TOKENS})),
    ("KV cache, to captured graphs", frozenset({Kind.GRAPHS})),
    ("warm-up, to the engine's start", frozenset({Kind.ENGINE_INIT})),
    ("HTTP front end", frozenset({Kind.HTTP_BEGIN})),
)
"""Phases by the lines that end them; of lines that repeat, the last one before the next phase's."""


@dataclass(frozen=True)
class Stamped:
    """A phase, in whole seconds."""

    name: str
    seconds: float


class StampPhases:
    """Folds events into phases."""

    def __init__(self) -> None:
        self._first: datetime | None = None
        self._reached = -1
        self._at: dict[int, datetime] = {}

    def feed(self, event: Event) -> None:
        """The next event."""
        time = moment(event.stamp)
        if time is None:
            return
        if event.kind is Kind.FIRST_RECORD:
            self._first = time
        for place, (_, kinds) in enumerate(ENDS):
            # A drafter's model is loaded after the target's; a line of a phase that is over changes nothing.
            if event.kind in kinds and place >= self._reached:
                self._reached = place
                self._at[place] = time

    def phases(self) -> list[Stamped]:
        """Phases so far; none where the log's times go back."""
        found: list[Stamped] = []
        before = self._first
        for place in sorted(self._at):
            if before is not None:
                seconds = (self._at[place] - before).total_seconds()
                if seconds < 0:  # midnight of New Year, or a clock that was set
                    return []
                found.append(Stamped(ENDS[place][0], seconds))
            before = self._at[place]
        return found


def moment(stamp: str) -> datetime | None:
    """A stamp as a time of some year; None for what is none."""
    match = _STAMP.match(stamp)
    if match is None:
        return None
    try:
        return datetime.fromisoformat(f"{match['year'] or LEAP_YEAR}-{match['rest'].replace(' ', 'T')}")
    except ValueError:
        return None
