"""Records of the client's own state: what a measurement has to be able to say of itself.

Times named `_ns` are CLOCK_MONOTONIC nanoseconds. A value that was not obtained is None, never 0.
"""

from __future__ import annotations

from typing import Literal

from harness.config.strict import Strict


class ClientLoad(Strict):
    """How busy the harness's own process was in a window."""

    cpu_ns: int
    """CPU time of all its threads."""
    lag_p99_ns: int | None
    """By how much a thread that wakes every 5 ms was late; of less than 100 wake-ups this is the largest."""
    lag_samples: int


class Gauge(Strict):
    """What the server said that it did at a moment."""

    mono_ns: int
    running: float
    waiting: float


class SelfTest(Strict):
    """The client against the built-in server, whose truth is known (selftest.json)."""

    schema_version: Literal[1] = 1
    streams: int
    """Of the paced part, side by side."""
    events_expected: int | None = None
    events_received: int | None = None
    tokens_expected: int | None = None
    tokens_received: int | None = None
    ids_exact: bool | None = None
    """Every token id is the one that the model's rule gives."""
    events_per_s: float | None = None
    """One stream as fast as it goes: per second of the client's CPU time, parsing included."""
    delivery_p50_ms: float | None = None
    """From the server's stamp, just before it writes an event, to the client's."""
    delivery_p99_ms: float | None = None
    first_token_error_ms: float | None = None
    """Median over the streams of the absolute difference to the server's own time to the first token."""
    rate_error_pct: float | None = None
    """Largest over the streams, of tokens after the first event per second, against the server's stamps."""
    client_cores: float | None = None
    """CPU time of the client's process per second of the paced part."""
    error: str | None = None
    """Why there are no figures; None where the test ran to its end."""
