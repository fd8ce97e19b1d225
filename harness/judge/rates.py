"""Rates of one request, and of a launch: the median of its passes. Formulas of DESIGN 5."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.client.load import percentile
from harness.judge.window import WindowEvidence
from harness.records import RequestRecord


def prefill_rate(request: RequestRecord) -> float | None:
    """Prompt tokens per second: N / (first token event - request body sent).

    None where the request did not produce a token or its sending was not timed.
    """
    seconds = first_token_s(request)
    return request.prompt_tokens / seconds if seconds is not None and seconds > 0 else None


def first_token_s(request: RequestRecord) -> float | None:
    """Seconds from the request body sent to the first token event."""
    first_ns = request.first_token_ns or next(iter(request.event_ns), None)
    if first_ns is None or request.sent_ns is None:
        return None
    return (first_ns - request.sent_ns) / 1e9


def decode_s(request: RequestRecord) -> float | None:
    """Seconds from the first token event to the last; None where there is only one."""
    if len(request.event_ns) < 2 or request.event_ns[-1] <= request.event_ns[0]:
        return None
    return (request.event_ns[-1] - request.event_ns[0]) / 1e9


def decode_rate(request: RequestRecord) -> float | None:
    """Tokens per second after the first event; tokens are counted, not events."""
    seconds = decode_s(request)
    return None if seconds is None else sum(request.event_tokens[1:]) / seconds


def inter_chunk_gap_ms(window: WindowEvidence) -> float | None:
    """99th percentile (nearest rank) of the gaps between a request's token events, in ms.

    Not an inter-token latency: under MTP an event carries one token or two. None as for a rate.
    """
    if window.fault is not None or window.stalled is not None:
        return None
    gaps = [b - a for r in window.requests for a, b in pairwise(r.event_ns)]
    p99 = percentile(gaps, 0.99)
    return None if p99 is None else p99 / 1e6


@dataclass(frozen=True)
class Decode:
    """One decode pass of one request at a time: speed, and what speculation made of it."""

    tokens_per_s: float
    steps_per_s: float
    """The engine's own speed: drafter luck is taken out."""
    tokens_per_step: float
    drafts: int
    accepted: int

    @property
    def mean_acceptance_length(self) -> float | None:
        """1 + accepted / drafts; None without drafts."""
        return 1 + self.accepted / self.drafts if self.drafts else None


def decode_steps(window: WindowEvidence) -> int | None:
    """Steps after the prefill of a window with one request: drafts under MTP, tokens after the first without."""
    if window.fault is not None or len(window.requests) != 1:
        return None
    # Without speculation every token after the first is a step of its own.
    return window.counted("drafts") if window.draft_tokens else sum(window.requests[0].event_tokens[1:])


def tokens_per_step(window: WindowEvidence) -> float | None:
    """Delivered tokens after the first event / steps: from counts alone, so a stalled client does not matter."""
    steps = decode_steps(window)
    return sum(window.requests[0].event_tokens[1:]) / steps if steps else None


def counts_by_prompt(windows: Sequence[WindowEvidence]) -> dict[str, tuple[int, int]]:
    """(tokens after the first, verify steps) by the prompt's hash; {} where the steps of a request are unknown.

    The server counts steps per window. Where a window holds several requests, one event per step tells them
    apart: usable only when all events together are as many as the server's steps.
    """
    found: dict[str, tuple[int, int]] = {}
    for window in windows:
        if window.fault is not None or window.counted("drafts") != sum(len(r.event_ns) - 1 for r in window.requests):
            return {}
        for request in window.requests:
            tokens, steps = found.get(request.prompt_sha256, (0, 0))
            found[request.prompt_sha256] = tokens + sum(request.event_tokens[1:]), steps + len(request.event_ns) - 1
    return found


def decode_pass(window: WindowEvidence) -> Decode | None:
    """Figures of a decode window with one request; None where it has a fault, a stall, or several requests."""
    steps, per_step = decode_steps(window), tokens_per_step(window)
    if steps is None or per_step is None or window.stalled is not None:
        return None
    request = window.requests[0]
    seconds, rate = decode_s(request), decode_rate(request)
    if seconds is None or rate is None:
        return None
    return Decode(
        tokens_per_s=rate,
        steps_per_s=steps / seconds,
        tokens_per_step=per_step,
        drafts=window.counted("drafts") or 0,
        accepted=window.counted("accepted") or 0,
    )


def median(values: Sequence[float | None]) -> float | None:
    """Median of the passes; None when one of them has no value, since the rest would be a selection."""
    known = [v for v in values if v is not None]
    return statistics.median(known) if known and len(known) == len(values) else None
