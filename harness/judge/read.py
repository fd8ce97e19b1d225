"""One launch's evidence, read back from its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from harness.errors import BundleError
from harness.evidence.bundle import LaunchDir, read_lines, read_record
from harness.evidence.names import name_fault
from harness.image.identity import FoundImage, Verification
from harness.judge.samples import GpuEvidence, HostMemory, ProcessReadings, gpu_evidence, host_memory, process_readings
from harness.judge.window import WindowEvidence
from harness.observe import prometheus
from harness.observe.clocks import jump_s
from harness.observe.jit.files import Entry
from harness.observe.log import Event, Kind, events, read_chunks
from harness.observe.memory import Moments, Prompt
from harness.observe.phases import HEALTHY, PROCESS, SERVED, LogClock
from harness.records import CheckRecord, LaunchRecord, Mark, OutputRecord, RequestRecord, Window
from harness.words import Step


def _wall_ns(wall: str) -> int | None:
    try:
        return round(datetime.fromisoformat(wall).timestamp() * 1e9)
    except ValueError:
        return None


@dataclass(frozen=True)
class LaunchEvidence:
    """Everything that one launch left."""

    folder: LaunchDir
    record: LaunchRecord | None
    marks: tuple[Mark, ...]
    windows: tuple[WindowEvidence, ...]
    outputs: dict[str, OutputRecord]
    checks: tuple[CheckRecord, ...]
    log: tuple[Event, ...]
    clock: LogClock
    first_scrape: prometheus.Scrape | None
    image: FoundImage | None = None
    """What was read back from its running container; None for a process, or where nobody looked."""

    def mark_ns(self, name: str) -> int | None:
        """Time of the first mark of that name."""
        return next((m.mono_ns for m in self.marks if m.mark == name), None)

    @property
    def ready_ns(self) -> int | None:
        """When the first request had been served, or None."""
        return self.mark_ns(SERVED)

    @cached_property
    def host_memory(self) -> HostMemory:
        """Memory of the server's processes, read once."""
        return host_memory(self.folder)

    @cached_property
    def processes(self) -> tuple[ProcessReadings, ...]:
        """Memory and CPU time, process by process."""
        return process_readings(self.folder)

    @cached_property
    def gpu(self) -> GpuEvidence:
        """What was seen of its GPUs, read once."""
        return gpu_evidence(self.folder, self.record.gpu if self.record else None)

    @cached_property
    def moments(self) -> Moments:
        """When the phases of its memory begin and end."""
        ready, stop = self.ready_ns, self.mark_ns("stop asked")
        begins = [m.mono_ns for m in self.marks if m.mark == "step begins"]
        prompts = {}
        for begin, end in pairwise(m for m in self.marks if m.mark in ("step begins", "step ends")):
            is_first = begin.mark == "step begins" and begin.step is Step.FIRST_PROMPT
            if is_first and begin.context_tokens is not None and begin.context_tokens not in prompts:
                following = [t for t in [*begins, *filter(None, [stop])] if t > end.mono_ns]
                prompts[begin.context_tokens] = Prompt(begin.mono_ns, end.mono_ns, min(following, default=None))
        returned = (self.mark_ns(f"GPU memory {how}") for how in ("back", "not back"))
        return Moments(
            process_ns=self.mark_ns(PROCESS),
            ready_ns=ready,
            asked_ns=None if ready is None else min([t for t in begins if t > ready], default=stop),
            stop_ns=stop,
            gone_ns=next((t for t in returned if t is not None), None),
            prompts=prompts,
        )

    @cached_property
    def clock_jump(self) -> str | None:
        """Where the wall clock left the monotonic one: it was set, or the host slept; None where it kept pace."""
        marks = [(m.mono_ns, wall) for m in self.marks if (wall := _wall_ns(m.wall)) is not None]
        # Some marks are written later than they happened.
        sources = [("timeline.jsonl", sorted(marks)), *(("gpu.parquet", gpu.walls) for gpu in self.gpu.gpus.values())]
        for name, moments in sources:
            if (jump := jump_s(moments)) is not None:
                return f"the wall clock went {jump:+,.1f} s against the monotonic one ({name})"
        return None

    def of_kind(self, kind: Kind) -> list[Event]:
        """Log events of a kind."""
        return [e for e in self.log if e.kind is kind]

    def before_ready(self, event: Event) -> bool:
        """True for a line that came while the server was starting."""
        time_ns, healthy = self.clock.at(event.end_offset), self.mark_ns(HEALTHY)
        return time_ns is None or healthy is None or time_ns <= healthy

    def after_stop(self, event: Event) -> bool:
        """True for a line that came once the harness had asked the server to stop."""
        time_ns, stop = self.clock.at(event.end_offset), self.mark_ns("stop asked")
        return stop is not None and time_ns is not None and time_ns >= stop

    def while_serving(self, event: Event) -> bool:
        """True for a line after health and before the harness asked the server to stop."""
        return not self.before_ready(event) and not self.after_stop(event)

    def step_at(self, time_ns: int | None) -> str:
        """The step of the course that ran at a time."""
        open_step = "between requests"
        for mark in self.marks:
            if time_ns is None or mark.mono_ns > time_ns:
                break
            if mark.mark == "step begins":
                open_step = f"{mark.step}{f' {mark.context_tokens}' if mark.context_tokens else ''}"
            elif mark.mark == "step ends":
                open_step = "between requests"
        return open_step

    def windows_of(
        self, step: Step, context_tokens: int | None = None, *, streams: int | None = None
    ) -> list[WindowEvidence]:
        """Windows of a step, in the order of their passes; of decode those of one stream, unless told otherwise."""
        streams = 1 if streams is None and step is Step.DECODE else streams
        return [
            w
            for w in self.windows
            if w.window.step is step
            and w.window.context_tokens == context_tokens
            and (streams is None or w.window.streams == streams)
        ]

    def windows_in(self, step: Step) -> list[WindowEvidence]:
        """Windows of a step at every context."""
        return [w for w in self.windows if w.window.step is step]

    @cached_property
    def listings(self) -> dict[str, dict[str, Entry]]:
        """Cache folders, read once: stage -> relative path -> bytes and time of the last change.

        A stage `after ...` holds only what is new or changed since the stage before it.
        """
        file = self.folder.caches_file
        return read_listings(file) if file.is_file() else {}

    def place(self, event: Event) -> str:
        """Where a log event stands, for a row's sources."""
        return f"launches/{self.folder.id}/server.log:{event.line}"


def read_listings(file: Path) -> dict[str, dict[str, Entry]]:
    """What caches.json holds.

    Raises:
        BundleError: it holds something else.
    """
    try:
        found: dict[str, dict[str, int | list[int]]] = json.loads(file.read_bytes())
        return {
            stage: {path: (e, None) if isinstance(e, int) else _size_and_time(e) for path, e in listed.items()}
            for stage, listed in found.items()
        }
    except (ValueError, RecursionError) as e:
        raise BundleError(f"{file}: not valid JSON ({e})") from None
    except (AttributeError, TypeError) as e:
        raise BundleError(f"{file}: not a table of listed files ({e})") from None


def _size_and_time(entry: list[int]) -> Entry:
    if not (isinstance(entry, list) and len(entry) == 2 and all(type(x) is int for x in entry)):
        raise TypeError(f"{entry!r:.60} is not a size and a time")
    return entry[0], entry[1]


def read_launch(folder: LaunchDir) -> LaunchEvidence:
    """Read a launch's folder, complete or not.

    Raises:
        BundleError: a file is there and cannot be used.
    """
    record = folder.record()
    requests: dict[str, list[RequestRecord]] = {}
    for request in read_lines(folder.requests_file, RequestRecord):
        requests.setdefault(request.window, []).append(request)
    scrapes = _Scrapes(folder.metrics_dir)
    draft_tokens = _draft_tokens(record)
    windows = [
        WindowEvidence(
            window,
            tuple(requests.get(window.window, ())),
            prometheus.delta(scrapes.get(window.scrape_before), scrapes.get(window.scrape_after)),
            draft_tokens,
        )
        for window in read_lines(folder.windows_file, Window)
    ]
    return LaunchEvidence(
        folder=folder,
        record=record,
        marks=tuple(read_lines(folder.timeline_file, Mark)),
        windows=tuple(windows),
        outputs={o.request: o for o in read_lines(folder.outputs_file, OutputRecord) if not o.sequence},
        checks=tuple(read_lines(folder.checks_file, CheckRecord)),
        log=_log_events(folder.log_file),
        clock=_clock(folder.log_times_file),
        first_scrape=scrapes.get("001.prom"),
        image=read_record(folder.image_file, Verification).found if folder.image_file.is_file() else None,
    )


def _draft_tokens(record: LaunchRecord | None) -> int:
    """Draft tokens per step, from the command that was really started."""
    argv: Sequence[str] = record.argv if record else ()
    for flag, value in pairwise(argv):
        if flag == "--speculative-config":
            try:
                return int(json.loads(value).get("num_speculative_tokens", 0))
            except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
                return 0
    return 0


def _log_events(path: Path) -> tuple[Event, ...]:
    if not path.is_file():
        return ()
    with path.open("rb") as stream:
        return tuple(events(read_chunks(stream)))


def _clock(path: Path) -> LogClock:
    rows = []
    if path.is_file():
        for line in path.read_text("ascii", "backslashreplace").splitlines():
            try:
                offset, time_ns = json.loads(line)
            except (ValueError, TypeError, RecursionError):
                break  # a torn last line: the harness was killed while it wrote
            if type(offset) is not int or type(time_ns) is not int:
                break
            rows.append((offset, time_ns))
    return LogClock([r[0] for r in rows], [r[1] for r in rows])


class _Scrapes:
    """Parsed scrapes of a launch; each file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parsed: dict[str, prometheus.Scrape | None] = {}

    def get(self, name: str | None) -> prometheus.Scrape | None:
        if name is None:
            return None
        if name not in self._parsed:
            path = self._folder / name
            if "/" in name or name_fault(name):
                raise BundleError(f"{self._folder}: {name[:80]!r} is no name of a scrape")
            try:
                self._parsed[name] = prometheus.parse(path.read_text("utf-8")) if path.is_file() else None
            except ValueError:  # torn: the harness was killed while it wrote
                self._parsed[name] = None
        return self._parsed[name]
