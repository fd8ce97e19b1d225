"""Rates of a window with several streams: what all of them got together, and what the server made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.judge.rates import decode_s
from harness.judge.window import WindowEvidence
from harness.records import RequestRecord


@dataclass(frozen=True)
class InFlight:
    """Requests side by side, as the client saw them: from the begin of each to its end."""

    peak: int
    mean: float
    """Over the time from the first begin to the last end."""


@dataclass(frozen=True)
class Load:
    """One decode pass of several streams.

    The span runs from the window's first token event to its last: prefills of the streams' later
    requests fall into it, as they do when users share a server. tokens_per_s = steps_per_s x tokens_per_step.
    """

    tokens_per_s: float
    """Tokens after the first event of each request, of all streams, per second of the span."""
    steps_per_s: float
    """Sequence-steps per second of the span: a step of the engine that runs n sequences counts n times."""
    tokens_per_step: float
    """Delivered tokens / sequence-steps; no acceptance length, trimmed tokens are not in it."""


def in_flight(requests: Sequence[RequestRecord]) -> InFlight | None:
    """How many requests ran side by side; None of none."""
    edges = sorted((t, change) for r in requests for t, change in ((r.begin_ns, 1), (r.end_ns, -1)))
    if not edges or edges[-1][0] == edges[0][0]:
        return None
    peak = running = 0
    for _, change in edges:
        running += change
        peak = max(peak, running)
    busy_ns = sum(r.end_ns - r.begin_ns for r in requests)
    return InFlight(peak, busy_ns / (edges[-1][0] - edges[0][0]))


def server_peak(window: WindowEvidence) -> float | None:
    """Most requests that the server said it ran at once; None without a sample."""
    return max((g.running for g in window.window.gauges), default=None)


def sequence_steps(window: WindowEvidence) -> int | None:
    """Steps after the prefills, of all sequences: drafts under MTP, delivered tokens without."""
    if window.fault is not None or not window.requests:
        return None
    return window.counted("drafts") if window.draft_tokens else delivered(window.requests)


def delivered(requests: Sequence[RequestRecord]) -> int:
    """Tokens after the first event of each request."""
    return sum(sum(r.event_tokens[1:]) for r in requests)


def tokens_per_sequence_step(window: WindowEvidence) -> float | None:
    """Delivered tokens / sequence-steps: from counts alone, so a stalled client does not matter."""
    steps = sequence_steps(window)
    return delivered(window.requests) / steps if steps else None


def load_pass(window: WindowEvidence) -> Load | None:
    """Figures of a window; None where it has a fault or a stall, or a request without two events."""
    steps, per_step = sequence_steps(window), tokens_per_sequence_step(window)
    if not steps or per_step is None or window.stalled is not None:
        return None
    if any(decode_s(r) is None for r in window.requests):
        return None
    first = min(r.event_ns[0] for r in window.requests)
    last = max(r.event_ns[-1] for r in window.requests)
    seconds = (last - first) / 1e9
    return Load(delivered(window.requests) / seconds, steps / seconds, per_step)


def phase_s(window: WindowEvidence, phase: str) -> float | None:
    """Seconds per request that the server's own histogram gives for a phase (queue, service); None where unknown."""
    if window.fault is not None or window.delta is None or not window.requests:
        return None
    seconds = window.delta.seconds_of(phase)
    return None if seconds is None else seconds / len(window.requests)
