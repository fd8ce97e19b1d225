"""Phases from a log's own stamps, for a log that nobody timed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from harness.observe.log import events
from harness.observe.log.stamps import Stamped, StampPhases, moment
from tests.observe.log.support import KV

LINES = (
    (0, "Using max model len 9"),
    (5, "Initializing a V1 LLM engine (v0.32.0) with config: x"),
    (7, "Starting to load model /m..."),
    (9, "Loading weights took 2.00 seconds"),
    (10, "Loading weights took 1.00 seconds"),
    (20, KV),
    (22, "Graph capturing finished in 2 secs, took 0.1 GiB"),
    (25, "init engine (x) took 15.00 s"),
    (26, "Starting vLLM server on http://0.0.0.0:8000"),
)


def stamped(lines: tuple[tuple[int, str], ...], begin: datetime) -> list[Stamped]:
    fold = StampPhases()
    log = "".join(f"INFO {begin + timedelta(seconds=s):%m-%d %H:%M:%S} [x.py:1] {text}\n" for s, text in lines)
    for event in events([log.encode()]):
        fold.feed(event)
    return fold.phases()


def test_the_lines_that_end_phases_divide_the_start() -> None:
    assert [(p.name, p.seconds) for p in stamped(LINES, datetime(2026, 11, 29, 23, 59, 50, tzinfo=UTC))] == [
        ("arguments, to the engine's banner", 5),
        ("workers, to the model", 2),
        ("model and weights", 3),
        ("compile and profile, to KV sizing", 10),
        ("KV cache, to captured graphs", 2),
        ("warm-up, to the engine's start", 3),
        ("HTTP front end", 1),
    ]


def test_a_phase_whose_line_is_missing_is_part_of_the_next_one() -> None:
    found = stamped(tuple(x for x in LINES if "Graph" not in x[1]), datetime(2026, 11, 29, tzinfo=UTC))
    assert [(p.name, p.seconds) for p in found][-2] == ("warm-up, to the engine's start", 5)


def test_a_line_of_a_phase_that_is_over_changes_nothing() -> None:
    assert stamped((*LINES, (90, LINES[3][1])), datetime(2026, 11, 29, tzinfo=UTC)) == stamped(
        LINES, datetime(2026, 11, 29, tzinfo=UTC)
    )


def test_times_that_go_back_are_no_phases() -> None:
    assert stamped(LINES, datetime(2026, 12, 31, 23, 59, 50, tzinfo=UTC)) == []
    assert stamped(LINES[1:2], datetime(2026, 11, 29, tzinfo=UTC)) == [Stamped("arguments, to the engine's banner", 0)]


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        ("11-29 16:27:06", "2000-11-29T16:27:06"),
        ("02-29 00:00:00", "2000-02-29T00:00:00"),
        ("2026-11-29 16:39:31,823", "2026-11-29T16:39:31"),
        ("02-30 00:00:00", None),
        ("99-99 99:99:99", None),
        ("", None),
    ],
)
def test_a_stamp_without_a_year_is_a_time_of_some_year(stamp: str, shown: str | None) -> None:
    found = moment(stamp)
    assert (found and found.isoformat()) == shown
