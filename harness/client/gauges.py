"""What the server says that it runs, while streams run: the other half of an achieved concurrency."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import requests

from harness.observe import prometheus

PERIOD_S = 0.25
TIMEOUT_S = 5.0


class GaugeSampler:
    """Scrapes a server four times a second while it is open; a scrape that fails is a gap.

    A scrape costs the server some milliseconds, the same in every arm. None is made in the first period,
    so a window shorter than that has no sample.
    """

    def __init__(self, base_url: str, period_s: float = PERIOD_S) -> None:
        self._base_url = base_url
        self._period_s = period_s
        self._closed = threading.Event()
        self._samples: list[tuple[int, float, float]] = []
        self._thread = threading.Thread(target=self._sample, name="server-gauges", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join()

    @property
    def samples(self) -> tuple[tuple[int, float, float], ...]:
        """(monotonic ns, requests running, requests waiting), in order."""
        return tuple(self._samples)

    def _sample(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            while not self._closed.wait(self._period_s):
                try:
                    response = session.get(f"{self._base_url}/metrics", timeout=TIMEOUT_S)
                    now = time.monotonic_ns()
                    response.raise_for_status()
                    scrape = prometheus.parse(response.text)
                except (requests.RequestException, ValueError):
                    continue
                if scrape.running is not None and scrape.waiting is not None:
                    self._samples.append((now, scrape.running, scrape.waiting))
