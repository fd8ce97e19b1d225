"""CPU time of a process over a stretch, from a counter that is read now and then. Pure: readings in, seconds out."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class CpuTime:
    """Readings of a counter that only rises, in order of time; both in ns."""

    times_ns: tuple[int, ...] = ()
    cpu_ns: tuple[int, ...] = ()

    @classmethod
    def of(cls, readings: Sequence[tuple[int, int]]) -> CpuTime:
        """Times and values, in order of time. None of one that falls: it is not the counter of one process."""
        if any(b < a for (_, a), (_, b) in pairwise(readings)):
            return cls()
        return cls(tuple(t for t, _ in readings), tuple(value for _, value in readings))

    def spent_s(self, begin_ns: int, end_ns: int) -> float | None:
        """CPU seconds of a stretch; None where there is no reading on either side of it.

        Between two readings the counter is taken to rise evenly, so that a stretch that begins or ends amidst them
        is off by no more than what was spent between those two.
        """
        begin, end = self._at(begin_ns), self._at(end_ns)
        return None if begin is None or end is None else (end - begin) / 1e9

    def _at(self, time_ns: int) -> float | None:
        after = bisect.bisect_left(self.times_ns, time_ns)
        if after == len(self.times_ns):
            return None
        if self.times_ns[after] == time_ns:
            return float(self.cpu_ns[after])
        if after == 0:
            return None
        (t0, t1), (v0, v1) = self.times_ns[after - 1 : after + 1], self.cpu_ns[after - 1 : after + 1]
        return v0 + (v1 - v0) * (time_ns - t0) / (t1 - t0)
