"""The table of docs/history.md: it is the benchmark's, and a step of a size that matters is seen in it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import nights
from benchmarks.generated import generated
from benchmarks.nights import BY_NIGHTS, DOC, NOISE_PCT, first_alarm, seen


def test_the_document_has_the_benchmarks_table() -> None:
    table = generated(DOC, "nights").splitlines()
    rows = [line.split("|")[1].strip() for line in table if line.startswith("| ") and "%" in line[:8]]
    assert rows == [f"{noise:g} %" for noise in NOISE_PCT]


def test_three_percent_are_mostly_seen_on_the_second_night_and_more_nights_see_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nights, "SERIES", 40)
    shares = seen(np.random.default_rng(1), 0.005, -0.03)
    assert len(shares) == len(BY_NIGHTS)
    assert shares[0] >= 0.8
    assert shares == sorted(shares)


def test_quiet_nights_are_no_alarm() -> None:
    assert first_alarm(nights.nights(np.random.default_rng(2), 20, 0.01)) is None
