"""One window of a launch: its requests, what the server counted meanwhile, and what makes it unusable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from harness.observe import prometheus
from harness.records import RequestRecord, Window

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


def _shortfall(request: RequestRecord) -> str:
    return (
        f"asked {request.all_asked_tokens}, got {sum(request.event_tokens)}, usage {request.usage}, "
        f"finish reason {request.finish_reason}"
        + (f", prompt logprobs {request.prompt_logprobs}" if "prompt_logprobs" in request.sampling else "")
    )
