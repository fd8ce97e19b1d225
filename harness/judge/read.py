"""One launch's evidence, read back from its folder, with what makes a window unusable named."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
from harness.observe import prometheus
from harness.observe.clocks import jump_s
from harness.observe.jit.files import Entry
from harness.observe.log import Event, Kind, events, read_chunks
from harness.observe.memory import Moments, Prompt
from harness.observe.phases import HEALTHY, PROCESS, SERVED, LogClock
from harness.records import CheckRecord, LaunchRecord, Mark, OutputRecord, RequestRecord, Window
from harness.words import Step

CLIENT_CORES = 0.5
CORES_TELL_NS = 100_000_000
LAG_NS = 5_000_000
BURST_NS = 50_000
BURST_EVENTS = 16


@dataclass(frozen=True)
class WindowEvidence:
    """A window, its requests, and what the server counted meanwhile."""

    window: Window
    requests: tuple[RequestRecord, ...]
    delta: prometheus.Delta | None
    draft_tokens: int

    @property
    def fault(self) -> str | None:
        """Why no figure of this window may be used, or None."""
        return self.unserved or self.miscounted

    @cached_property
    def stalled(self) -> str | None:
        """Why the events' times are the client's and not the server's, or None.

        The client must not have used more than CLIENT_CORES, nor have woken later than LAG_NS. A request
        costs it 3 to 8 ms of CPU at any rate, so in a window shorter than CORES_TELL_NS only lateness, if it was
        measured, is asked for. Steps of an engine take longer than BURST_NS; when most events come closer
        together than that, they had piled up in the socket while the client was not running, and no rate
        follows from them. Counts and bytes are as good as ever.
        """
        client, wall_ns = self.window.client, self.window.end_ns - self.window.begin_ns
        cores_tell = wall_ns >= CORES_TELL_NS or client is None or client.lag_p99_ns is None
        # Rounded up: `0.50 cores, more than 0.5` would contradict itself.
        if client is not None and cores_tell and client.cpu_ns > CLIENT_CORES * wall_ns:
            cores = -(-client.cpu_ns * 1000 // max(wall_ns, 1)) / 1000
            return f"the client used {cores:.3f} cores, more than {CLIENT_CORES:g}"
        if client is not None and client.lag_p99_ns is not None and client.lag_p99_ns > LAG_NS:
            lag_ms = -(-client.lag_p99_ns // 10_000) / 100
            return f"the client's threads woke {lag_ms:.2f} ms late (p99), more than {LAG_NS / 1e6:g}"
        for request in self.requests:
            gaps = [b - a for a, b in pairwise(request.event_ns)]
            close = sum(gap < BURST_NS for gap in gaps)
            if len(gaps) >= BURST_EVENTS and close > len(gaps) / 2:
                return (
                    f"request {request.request}: {close} of {len(gaps)} gaps between events are under "
                    f"{BURST_NS / 1000:g} us, so the client read them late, in a burst"
                )
        return None

    @cached_property
    def unserved(self) -> str | None:
        """The first request that was not served in full, or None: the server's failing, not ours."""
        for request in self.requests:
            if not request.complete:
                return f"request {request.request} was not served in full: {request.error or _shortfall(request)}"
        return None

    @cached_property
    def miscounted(self) -> str | None:
        """Why the server's counts do not vouch for the client's, or None: a broken measurement."""
        if self.delta is None:
            return "a scrape failed, so the server's counts are unknown"
        if self.delta.reset:
            return "the server's counters were reset within the window"
        expected = {
            "requests": self.sequences,
            "prompt_tokens": sum(r.prompt_tokens * r.sequences for r in self.requests),
            "generation_tokens": sum(r.all_asked_tokens for r in self.requests),
            "prefix_hits": 0,
            "preemptions": 0,
        }
        # Sequences of one request share its prompt: all but the first may find it in the prefix cache.
        shared = {"prefix_hits": sum(r.prompt_tokens * (r.sequences - 1) for r in self.requests)}
        for name, want in expected.items():
            got = self.delta.get(name)
            if got is None:
                return f"the server does not count {name}"
            if not want <= got <= want + shared.get(name, 0):
                return f"{name}: the client counts {want}, the server {got}"
        return self._draft_fault()

    def _draft_fault(self) -> str | None:
        """Self-check under MTP, exact with one draft token; DESIGN 5 and notes/vllm.md 4."""
        if self.draft_tokens == 0:
            return None
        drafts, accepted, generated = (self.counted(n) for n in ("drafts", "accepted", "generation_tokens"))
        if drafts is None or accepted is None or generated is None:
            return "the server runs with MTP and does not count drafts"
        if not drafts and generated > self.sequences:
            return f"the server runs with MTP and drafted nothing for {generated} tokens"
        if self.draft_tokens == 1:
            trimmed = self.sequences + drafts + accepted - generated
            if not 0 <= trimmed <= self.sequences:
                return (
                    f"{self.sequences} requests + {drafts} drafts + {accepted} accepted cannot give {generated} tokens"
                )
        return None

    @property
    def sequences(self) -> int:
        """Outputs that were asked for: what the server counts as requests."""
        return sum(r.sequences for r in self.requests)

    def counted(self, name: str) -> int | None:
        """The server's count within the window, None where unknown."""
        return None if self.delta is None else self.delta.get(name)


def prompt_class(windows: Iterable[WindowEvidence]) -> str:
    """What the prompts of windows are made of: beside every figure of MTP, since drafts depend on the text."""
    classes = sorted({r.prompt_class.removesuffix("s") for w in windows for r in w.requests})
    return f"{' and '.join(classes) or 'no'} prompts"


def _wall_ns(wall: str) -> int | None:
    try:
        return round(datetime.fromisoformat(wall).timestamp() * 1e9)
    except ValueError:
        return None


def _shortfall(request: RequestRecord) -> str:
    return (
        f"asked {request.all_asked_tokens}, got {sum(request.event_tokens)}, usage {request.usage}, "
        f"finish reason {request.finish_reason}"
        + (f", prompt logprobs {request.prompt_logprobs}" if "prompt_logprobs" in request.sampling else "")
    )


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

    def listings(self) -> dict[str, dict[str, Entry]]:
        """Cache folders: stage -> relative path -> bytes and time of the last change.

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
