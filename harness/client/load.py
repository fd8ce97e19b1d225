"""How busy the client itself was: a client that starves stamps late, and nothing else would show it."""

from __future__ import annotations

import contextlib
import gc
import math
import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

PERIOD_S = 0.005


class LoadProbe:
    """Measures this process while it is open: CPU time, and how late a thread wakes that asked for 5 ms.

    The lateness counts what a stream's thread would suffer too: a core that is taken, a lock of the
    interpreter that another thread holds.
    """

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._closed = threading.Event()
        self._lags: list[int] = []
        self._cpu_ns = 0
        self._thread = threading.Thread(target=self._probe, name="client-lag", daemon=True)

    def __enter__(self) -> Self:
        self._cpu_ns = time.process_time_ns()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._cpu_ns = time.process_time_ns() - self._cpu_ns
        self._closed.set()
        self._thread.join()

    @property
    def cpu_ns(self) -> int:
        """CPU time of the whole process, in ns; final once the probe is closed."""
        return self._cpu_ns

    @property
    def lags_ns(self) -> tuple[int, ...]:
        """By how much each wake-up was late, in ns, in order."""
        return tuple(self._lags)

    def _probe(self) -> None:
        while True:
            begin = time.monotonic_ns()
            if self._closed.wait(self._period_s):
                return
            self._lags.append(max(0, time.monotonic_ns() - begin - round(self._period_s * 1e9)))


def percentile(values: Sequence[int], share: float) -> int | None:
    """Nearest-rank percentile: the smallest value that `share` of all do not exceed; None of nothing.

    Of fewer than 1 / (1 - share) values it is the largest.
    """
    return sorted(values)[math.ceil(share * len(values)) - 1] if values else None


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected while streams run: every stream stands still for the 20 to 40 ms that it can take."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
