"""The client's self-test: whether the harness could have measured at all what it reports."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case
from harness.records import Row
from harness.records.client import SelfTest
from harness.words import Word

NAME = "client self-test"
SOURCE = "selftest.json"

EVENTS_PER_S = 60_000
DELIVERY_P50_MS = 0.5
DELIVERY_P99_MS = 5.0
FIRST_TOKEN_MS = 1.0
RATE_PCT = 1.0
"""The bars of two idle cores (issue 5, item 7; notes/anchors.md 6.3)."""
KEPT_UP = "whether it kept up in each window is a row of its own"


def rows(case: Case) -> Iterator[Row]:
    """One row, of no mode: it says that the session was run in order, not that anything was measured."""
    test = case.selftest
    if test is None:
        yield Row(name=NAME, word=Word.NOT_TESTED, reason="switched off by client.selftest_s = 0, or an older bundle")
        return
    counts, missed = miscounts(test), missed_bars(test)
    if test.events_expected is None:
        word, reason = Word.WARN, f"it could not be run: {test.error}"
    elif counts or test.error:
        word, reason = Word.VOID, f"the client does not count right: {'; '.join(filter(None, (*counts, test.error)))}"
    elif missed:
        word, reason = Word.WARN, f"below the bars, on a busy host or slow cores: {'; '.join(missed)}; {KEPT_UP}"
    else:
        word, reason = Word.PASS, f"counts exact; {_figures(test)}"
    yield Row(name=NAME, word=word, reason=reason, sources=(SOURCE,))


def miscounts(test: SelfTest) -> list[str]:
    """What the client got wrong that no busy machine excuses."""
    found = []
    for what, got, expected in (
        ("events", test.events_received, test.events_expected),
        ("tokens", test.tokens_received, test.tokens_expected),
    ):
        if got != expected:
            found.append(f"{got} {what} of {expected}")
    return found if test.ids_exact else [*found, "token ids are not the server's"]


def missed_bars(test: SelfTest) -> list[str]:
    """Bars that the figures miss; a figure that is not known misses its bar."""
    found = []
    if test.events_per_s is None or test.events_per_s < EVENTS_PER_S:
        found.append(f"{_shown(test.events_per_s, ',.0f')} events/s of CPU, bar {EVENTS_PER_S:,}")
    for what, value, bar, unit in (
        ("delivery p50", test.delivery_p50_ms, DELIVERY_P50_MS, "ms"),
        ("delivery p99", test.delivery_p99_ms, DELIVERY_P99_MS, "ms"),
        ("first-token error", test.first_token_error_ms, FIRST_TOKEN_MS, "ms"),
        ("rate error", test.rate_error_pct, RATE_PCT, "%"),
    ):
        if value is None or value > bar:
            found.append(f"{what} {_shown(value, '.2f')} {unit}, bar {bar:g}")
    return found


def _figures(test: SelfTest) -> str:
    return (
        f"{_shown(test.events_per_s, ',.0f')} events/s of CPU, delivery p50 {_shown(test.delivery_p50_ms, '.2f')} and "
        f"p99 {_shown(test.delivery_p99_ms, '.2f')} ms at {test.streams} streams, first-token error "
        f"{_shown(test.first_token_error_ms, '.2f')} ms, rate error {_shown(test.rate_error_pct, '.2f')} %, "
        f"{_shown(test.client_cores, '.2f')} cores"
    )


def _shown(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)
