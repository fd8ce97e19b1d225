"""Watch memory and CPU time of a server's processes while it runs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from harness.evidence.pipe import removed
from harness.evidence.stream import whole
from harness.observe.gpu.journal import Journal, lines
from harness.observe.vanished import vanished_worker

PERIOD_S = 0.25
PSS_SHARE = 0.02
"""Reading PSS makes the kernel walk all pages of a process under its lock (11 ms per GiB), so it may take no
more than this share of the time."""

COLUMNS = ("mono_ns", "process", "rss_bytes", "pss_bytes", "cpu_ns")


class Usage(NamedTuple):
    """What one process uses at a moment."""

    rss_bytes: int
    cpu_ns: int | None = None
    """User and system time of all its threads since it began, in steps of the kernel's clock tick (10 ms); None where
    it could not be read. Children that it waited for are not in it."""


def usage(process: psutil.Process) -> tuple[str, Usage]:
    """Its `name:pid`, and what it uses; name and CPU time come of the same read.

    Raises:
        psutil.Error: it is gone, or not to be seen.
    """
    with process.oneshot():
        name = f"{process.name()}:{process.pid}"
        times = process.cpu_times()
        return name, Usage(process.memory_info().rss, round((times.user + times.system) * 1e9))


def proportional_bytes(process: str) -> int | None:
    """PSS of a process by its `name:pid`; None where this user, or this kernel, may not read it."""
    try:
        text = Path(f"/proc/{process.rpartition(':')[2]}/smaps_rollup").read_text("ascii")
    except OSError:
        return None
    sizes = [line.split()[1] for line in text.splitlines() if line.startswith("Pss:")]
    return int(sizes[0]) * 1024 if sizes else None


class HostSampler:
    """Samples each process in a thread: RSS and CPU time at each period, PSS as often as it may cost.

    Blind spot: what rises and falls within one period is not seen. Resident memory counts pages
    that processes share once per process, proportional memory once in all. A reading that fails,
    because a process went away under it, is a gap and not a zero, and the next one is taken all the same.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, Usage]],
        path: Path,
        period_s: float = PERIOD_S,
        *,
        read_pss: Callable[[str], int | None] | None = None,
    ) -> None:
        """`read` gives what each process uses, `read_pss` PSS in bytes of one of them; None = not read."""
        self._read = read
        self._read_pss = read_pss
        self._path = path
        self._period_s = period_s
        self._journal_file = path.with_suffix(".journal")
        self._journal: Journal | None = None
        self._pss_due_ns = 0
        self._stop = threading.Event()
        self._taking = threading.Lock()
        self._thread = threading.Thread(target=self._sample, name="host-sampler", daemon=True)

    def start(self) -> None:
        """Begin sampling."""
        self._journal = Journal(self._journal_file)
        self._thread.start()

    def read_now(self) -> None:
        """Take a sample at this moment, PSS included, whatever the pace."""
        self._pss_due_ns = 0
        self._take()

    def vanished_worker(self) -> str | None:
        """The rank whose process was gone before the others, by the samples so far; before `finish` only."""
        return vanished_worker(lines(self._journal_file)) if self._journal is not None else None

    def finish(self) -> None:
        """Stop and write the samples as typed columns: see `COLUMNS`; all but the process are int64.

        Raises:
            OSError: the disk is full; the journal stays.
        """
        self._stop.set()
        self._thread.join()
        assert self._journal is not None
        self._journal.close()

        import pyarrow as pa  # noqa: PLC0415  # only paid once a launch is over
        import pyarrow.parquet as pq  # noqa: PLC0415

        rows = list(lines(self._journal_file))
        columns = list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in COLUMNS]
        schema = pa.schema([(name, pa.string() if name == "process" else pa.int64()) for name in COLUMNS])
        with whole(self._path) as target:
            pq.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema), target)
        removed(self._journal_file)

    def _sample(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            with contextlib.suppress(OSError):  # a full disk: the file that is missing in the end shows it
                self._take()
            # Absolute, so that a reading's own time does not add up; what was missed is not made good.
            due = max(due + self._period_s, time.monotonic())

    def _take(self) -> None:
        assert self._journal is not None
        with self._taking:
            begin = time.monotonic_ns()
            try:
                found = self._read()
            except (psutil.Error, OSError):
                return
            shares = self._shares(found) if self._read_pss is not None and begin >= self._pss_due_ns else {}
            for process, (size, cpu_ns) in found.items():
                self._journal.add([begin, process, size, shares.get(process), cpu_ns])
            self._journal.flush()

    def _shares(self, found: Mapping[str, Usage]) -> dict[str, int | None]:
        assert self._read_pss is not None
        begin = time.monotonic_ns()
        shares = {process: self._read_pss(process) for process in found}
        end = time.monotonic_ns()
        self._pss_due_ns = end + round((end - begin) / PSS_SHARE)
        return shares
