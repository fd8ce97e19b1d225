"""Rates of one request, and of a launch: the median of its passes. Formulas of DESIGN 5."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.judge.read import WindowEvidence
from harness.records import RequestRecord


def prefill_rate(request: RequestRecord) -> float | None:
    """Prompt tokens per second: N / (first token event - request body sent).

    None where the request did not produce a token or its sending was not timed.
    """
    if not request.event_ns or request.sent_ns is None or request.event_ns[0] <= request.sent_ns:
        return None
    return request.prompt_tokens / ((request.event_ns[0] - request.sent_ns) / 1e9)


def first_token_s(request: RequestRecord) -> float | None:
    """Seconds from the request body sent to the first token event."""
    if not request.event_ns or request.sent_ns is None:
        return None
    return (request.event_ns[0] - request.sent_ns) / 1e9


def decode_s(request: RequestRecord) -> float | None:
    """Seconds from the first token event to the last; None where there is only one."""
    if len(request.event_ns) < 2 or request.event_ns[-1] <= request.event_ns[0]:
        return None
    return (request.event_ns[-1] - request.event_ns[0]) / 1e9


def decode_rate(request: RequestRecord) -> float | None:
    """Tokens per second after the first event; tokens are counted, not events."""
    seconds = decode_s(request)
    return None if seconds is None else sum(request.event_tokens[1:]) / seconds


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


def decode_pass(window: WindowEvidence) -> Decode | None:
    """Figures of a decode window with one request; None where it has a fault, a stall, or several requests."""
    if window.fault is not None or window.stalled is not None or len(window.requests) != 1:
        return None
    request = window.requests[0]
    seconds, rate = decode_s(request), decode_rate(request)
    if seconds is None or rate is None:
        return None
    after_first = sum(request.event_tokens[1:])
    drafts = window.counted("drafts") or 0
    # Without speculation every token after the first is a step of its own.
    steps = drafts if window.draft_tokens else after_first
    if steps == 0:
        return None
    return Decode(
        tokens_per_s=rate,
        steps_per_s=steps / seconds,
        tokens_per_step=after_first / steps,
        drafts=drafts,
        accepted=window.counted("accepted") or 0,
    )


def median(values: Sequence[float | None]) -> float | None:
    """Median of the passes; None when one of them has no value, since the rest would be a selection."""
    known = [v for v in values if v is not None]
    return statistics.median(known) if known and len(known) == len(values) else None
