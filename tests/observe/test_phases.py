"""A start-up as phases on one clock, and what none of them explains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.observe.log import Event, Kind
from harness.observe.phases import (
    CONTAINER,
    FIRST_LINE,
    HEALTHY,
    PROCESS,
    SERVED,
    LogClock,
    Phase,
    phases,
    unexplained_s,
)

MARKS = {PROCESS: 0, FIRST_LINE: 10, HEALTHY: 80, SERVED: 90}
LINES = [
    (20, Kind.ENGINE_BANNER),
    (30, Kind.LOAD_BEGIN),
    (40, Kind.WEIGHTS),
    (45, Kind.COMPILE_BEGIN),
    (50, Kind.KV_TOKENS),
    (60, Kind.ENGINE_INIT),
    (70, Kind.HTTP_READY),
]


def log(lines: list[tuple[int, Kind]]) -> tuple[list[Event], LogClock]:
    """A log whose n-th line ends at byte 100 n and arrived at the time that stands beside it."""
    found = [Event(kind, n, 100 * n, "", "") for n, (_, kind) in enumerate(lines, 1)]
    return found, LogClock([event.end_offset for event in found], [time for time, _ in lines])


def started(lines: list[tuple[int, Kind]], marks: dict[str, int] | None = None) -> dict[str, tuple[int, int]]:
    return {p.name: (p.begin_ns, p.end_ns) for p in phases(MARKS if marks is None else marks, *log(lines))}


# --- phases ---------------------------------------------------------------------------------------------


def test_marks_and_lines_bound_the_phases_in_order() -> None:
    assert list(started(LINES).items()) == [
        ("interpreter and imports, to the first log line", (0, 10)),
        ("arguments, to the engine's banner", (10, 20)),
        ("workers, to the model", (20, 30)),
        ("model and weights", (30, 40)),
        ("profile, to KV sizing", (45, 50)),
        ("warm-up, to the engine's start", (50, 60)),
        ("HTTP front end", (60, 70)),
        ("to a healthy answer", (70, 80)),
        ("to the first request served", (80, 90)),
    ]


def test_lines_that_only_some_servers_print_divide_the_phases_further() -> None:
    more = [(12, Kind.FIRST_RECORD), (42, Kind.MODEL_LOADED), (48, Kind.COMPILED), (57, Kind.GRAPHS)]
    found = started(sorted([*LINES, *more]), {**MARKS, CONTAINER: 3})
    assert list(found.items())[:11] == [
        ("image and container, to its start", (0, 3)),
        ("interpreter and imports, to the first log line", (3, 10)),
        ("more imports, to vLLM's first record", (10, 12)),
        ("arguments, to the engine's banner", (12, 20)),
        ("workers, to the model", (20, 30)),
        ("model and weights", (30, 40)),
        ("load, to the model in place", (40, 42)),
        ("compile", (45, 48)),
        ("profile, to KV sizing", (48, 50)),
        ("KV cache, to captured graphs", (50, 57)),
        ("warm-up, to the engine's start", (57, 60)),
    ]


def test_model_and_drafter_are_inspected_until_the_last_answer_before_the_engine() -> None:
    """On an H200 that was 27 s of a start with empty caches, and 0.02 s of a warm one."""
    found = started(sorted([*LINES, (14, Kind.ARCHITECTURE), (17, Kind.ARCHITECTURE), (25, Kind.ARCHITECTURE)]))
    assert found["model inspected, to its architecture"] == (10, 17)
    assert found["arguments, to the engine's banner"] == (17, 20)
    assert found["workers, to the model"] == (20, 30), "the engine's own process resolves it again"


def test_an_engine_that_compiles_nothing_profiles_once_its_model_is_in_place() -> None:
    """Eager on an H200 that was 3 to 4 s which no phase explained."""
    eager = [(time, kind) for time, kind in LINES if kind is not Kind.COMPILE_BEGIN]
    found = started(sorted([*eager, (42, Kind.MODEL_LOADED)]))
    assert found["profile, to KV sizing"] == (42, 50)
    assert "compile" not in found


def test_what_is_compiled_after_kv_sizing_is_no_part_of_the_compile_before_it() -> None:
    found = started(sorted([*LINES, (48, Kind.COMPILED), (55, Kind.COMPILED)]))
    assert (found["compile"], found["profile, to KV sizing"]) == ((45, 48), (48, 50))


def test_what_no_phase_covers_is_unexplained() -> None:
    found = phases(MARKS, *log(LINES))
    assert unexplained_s(90e-9, found) == pytest.approx(5e-9)  # between the weights and the compile


@pytest.mark.parametrize("missing", [kind for _, kind in LINES])
def test_a_missing_line_leaves_its_time_unexplained(missing: Kind) -> None:
    lines = [(time, kind) for time, kind in LINES if kind is not missing]
    found = phases(MARKS, *log(lines))
    assert len(found) in (7, 8)
    assert sum(p.seconds for p in found) + unexplained_s(90e-9, found) == pytest.approx(90e-9)
    assert unexplained_s(90e-9, found) > 9e-9


def test_without_a_log_the_marks_are_all_there_is() -> None:
    assert started([]) == {
        "interpreter and imports, to the first log line": (0, 10),
        "to the first request served": (80, 90),
    }


def test_a_server_that_never_served_has_the_phases_that_it_reached() -> None:
    assert list(started(LINES[:3], {PROCESS: 0})) == [
        "interpreter and imports, to the first log line",
        "arguments, to the engine's banner",
        "workers, to the model",
        "model and weights",
    ]


def test_the_first_line_is_the_logs_where_nobody_marked_it() -> None:
    assert started([(4, Kind.ATTENTION), *LINES], {PROCESS: 1})["interpreter and imports, to the first log line"] == (
        1,
        4,
    )


def test_lines_after_the_first_served_request_belong_to_no_start_up() -> None:
    assert started([*LINES, (95, Kind.KV_TOKENS), (96, Kind.ENGINE_INIT), (97, Kind.WEIGHTS)]) == started(LINES)


def test_of_lines_that_repeat_the_last_one_ends_the_phase() -> None:
    lines = sorted([*LINES, (42, Kind.WEIGHTS), (52, Kind.KV_TOKENS), (61, Kind.ENGINE_INIT)])
    found = started(lines)
    assert found["model and weights"] == (30, 42)
    assert found["profile, to KV sizing"] == (45, 52)
    assert found["warm-up, to the engine's start"] == (52, 61)


def test_of_lines_that_begin_something_the_first_one_counts() -> None:
    assert started(sorted([*LINES, (38, Kind.LOAD_BEGIN), (47, Kind.COMPILE_BEGIN), (71, Kind.HTTP_READY)])) == started(
        LINES
    )


def test_ranks_that_overlap_are_not_counted_twice() -> None:
    # Rank 0 compiles at 45 while rank 1 still loads until 48.
    found = started(sorted([*LINES, (48, Kind.WEIGHTS)]))
    assert found["model and weights"] == (30, 48)
    assert found["profile, to KV sizing"] == (48, 50)


def test_a_line_that_the_clock_does_not_know_has_no_time() -> None:
    found, clock = log(LINES)
    short = LogClock(clock.offsets[:3], clock.times_ns[:3])
    assert "HTTP front end" not in [p.name for p in phases(MARKS, found, short)]


time_ns = st.integers(0, 1000)


@given(
    st.lists(st.tuples(time_ns, st.sampled_from([kind for _, kind in LINES])), max_size=15).map(sorted),
    st.dictionaries(st.sampled_from([FIRST_LINE, HEALTHY]), time_ns),
    time_ns,
)
def test_phases_never_overlap_and_with_the_rest_they_are_the_whole(
    lines: list[tuple[int, Kind]], marks: dict[str, int], served: int
) -> None:
    marks = {name: min(time, served) for name, time in marks.items()} | {PROCESS: 0, SERVED: served}
    found = phases(marks, *log(lines))
    edges = [edge for p in found for edge in (p.begin_ns, p.end_ns)]
    assert edges == sorted(edges)
    total = served / 1e9
    assert sum(p.seconds for p in found) + unexplained_s(total, found) == pytest.approx(total)


# --- the clock ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end_offset", "time"), [(1, 7), (9, 7), (10, 7), (11, 8), (20, 8), (30, 9), (31, None), (1000, None)]
)
def test_a_bytes_time_is_that_of_the_piece_that_brought_it(end_offset: int, time: int | None) -> None:
    assert LogClock([10, 20, 30], [7, 8, 9]).at(end_offset) == time


def test_a_clock_without_rows_knows_nothing() -> None:
    assert LogClock([], []).at(1) is None


def test_a_phase_lasts_seconds() -> None:
    assert Phase("x", 1_000_000_000, 3_500_000_000).seconds == 2.5
