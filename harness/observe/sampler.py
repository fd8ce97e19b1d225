"""Watch the memory of a server's processes while it runs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

PERIOD_S = 0.25


class HostSampler:
    """Samples resident memory per process in a thread, and writes one parquet file at the end.

    Blind spot: what rises and falls within one period is not seen. Resident memory counts pages
    that processes share once per process. A reading that fails, because a process went away under
    it, is a gap and not a zero, and the next one is taken all the same.
    """

    def __init__(self, read: Callable[[], dict[str, int]], path: Path, period_s: float = PERIOD_S) -> None:
        self._read = read
        self._path = path
        self._period_s = period_s
        self._rows: list[tuple[int, str, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="host-sampler", daemon=True)

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def read_now(self) -> None:
        """Sample now, beside the period: what is shorter than a period has a sample at each end of it."""
        now = time.monotonic_ns()
        with contextlib.suppress(psutil.Error, OSError):
            self._rows += [(now, process, size) for process, size in self._read().items()]

    def finish(self) -> None:
        """Stop and write the samples: columns mono_ns (int64), process (string), rss_bytes (int64)."""
        self._stop.set()
        self._thread.join()

        import pandas as pd  # noqa: PLC0415  # half a second, only paid once a launch is over

        frame = pd.DataFrame(self._rows, columns=["mono_ns", "process", "rss_bytes"])
        frame.astype({"mono_ns": "int64", "process": "string", "rss_bytes": "int64"}).to_parquet(
            self._path, index=False
        )

    def _sample(self) -> None:
        while not self._stop.is_set():
            begin = time.monotonic_ns()
            self.read_now()
            self._stop.wait(max(0.0, self._period_s - (time.monotonic_ns() - begin) / 1e9))
