"""Memory over time, and what its phases come to. Pure: series and moments in, figures out."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

MIB = 1 << 20


@dataclass(frozen=True)
class Series:
    """Samples in order of time; sizes in MiB."""

    times_ns: tuple[int, ...]
    mib: tuple[float, ...]

    def last_before(self, time_ns: int | None) -> float | None:
        """The last sample at or before a time."""
        if time_ns is None:
            return None
        place = bisect.bisect_right(self.times_ns, time_ns)
        return self.mib[place - 1] if place else None

    def first_from(self, time_ns: int | None, until_ns: int | None = None) -> float | None:
        """The first sample at or after a time, and not after another one."""
        if time_ns is None:
            return None
        place = bisect.bisect_left(self.times_ns, time_ns)
        if place == len(self.times_ns) or (until_ns is not None and self.times_ns[place] > until_ns):
            return None
        return self.mib[place]

    def peak(self, begin_ns: int, end_ns: int) -> float | None:
        """The largest sample of a stretch; None where no sample fell into it."""
        return max(self._between(begin_ns, end_ns)[1], default=None)

    def lowest(self, begin_ns: int | None, end_ns: int | None) -> tuple[float, int] | None:
        """The smallest sample of a stretch, and when it first was; None where no sample fell into it."""
        if begin_ns is None or end_ns is None:
            return None
        times, sizes = self._between(begin_ns, end_ns)
        return min(zip(sizes, times, strict=True), default=None)

    def period_s(self) -> float | None:
        """Median time between samples; None where there are none to stand between."""
        gaps = [b - a for a, b in pairwise(self.times_ns)]
        return statistics.median(gaps) / 1e9 if gaps else None

    def _between(self, begin_ns: int, end_ns: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
        low, high = bisect.bisect_left(self.times_ns, begin_ns), bisect.bisect_right(self.times_ns, end_ns)
        return self.times_ns[low:high], self.mib[low:high]


@dataclass(frozen=True)
class Prompt:
    """When the first prompt of a length began and ended, and when the next step began."""

    begin_ns: int
    end_ns: int
    next_ns: int | None = None


@dataclass(frozen=True)
class Moments:
    """The moments of a launch that its memory is looked at by; None for one that it did not come to."""

    process_ns: int | None = None
    """The server was started."""
    ready_ns: int | None = None
    asked_ns: int | None = None
    """The first step after readiness began; where nothing was asked, the stop."""
    stop_ns: int | None = None
    """Just before the server was asked to stop."""
    gone_ns: int | None = None
    """The server had ended and its memory was waited for."""
    prompts: Mapping[int, Prompt] = field(default_factory=dict)
    """By prompt tokens."""


@dataclass(frozen=True)
class PromptFigures:
    """What the first prompt of a length did to a GPU, in MiB."""

    lowest: float | None
    """Lowest free memory from its begin to the first sample after its end."""
    taken: float | None
    """Free before it, less that lowest."""
    kept: float | None
    """Free before it, less free after it: what it did not give back."""


NOTHING = PromptFigures(None, None, None)


@dataclass(frozen=True)
class FreeFigures:
    """Free memory of one GPU by phase, in MiB; None where no sample tells.

    What falls and rises again between two samples is not seen: the sampling period is the blind spot.
    """

    before: float | None
    """Before the server was started."""
    idle: float | None
    """After readiness, before anything else was asked."""
    lowest: float | None
    """From the server's start to the stop."""
    lowest_ns: int | None
    end: float | None
    after: float | None
    """After the exit."""
    prompts: Mapping[int, PromptFigures]

    @property
    def residency(self) -> float | None:
        """What the idle server holds: free before it, less free at idle."""
        return None if self.before is None or self.idle is None else self.before - self.idle


def free_figures(free: Series, moments: Moments) -> FreeFigures:
    """Figures of one GPU."""
    ready = moments.ready_ns is not None
    lowest = free.lowest(moments.process_ns, moments.stop_ns)
    return FreeFigures(
        before=free.last_before(moments.process_ns),
        idle=free.last_before(moments.asked_ns) if ready else None,
        lowest=None if lowest is None else lowest[0],
        lowest_ns=None if lowest is None else lowest[1],
        end=free.last_before(moments.stop_ns) if ready else None,
        after=free.last_before(moments.gone_ns),
        prompts={tokens: _prompt(free, prompt) for tokens, prompt in moments.prompts.items()},
    )


def _prompt(free: Series, prompt: Prompt) -> PromptFigures:
    before = free.last_before(prompt.begin_ns)
    after = free.first_from(prompt.end_ns, prompt.next_ns)
    during = free.lowest(prompt.begin_ns, prompt.end_ns)
    if before is None or after is None:
        return PromptFigures(None if during is None else during[0], None, None)
    lowest = after if during is None else min(after, during[0])
    return PromptFigures(lowest, before - lowest, before - after)
