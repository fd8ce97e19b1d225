"""From where on a kernel is late: the monitor of its rank, else KV sizing."""

from __future__ import annotations

from harness.observe.log.late import FROM_KV_SIZING, FROM_MONITOR, late_events, lateness
from tests.observe.log.support import KV, STAMP, parsed

ARMED = "Kernel JIT monitor activated; x mode=warn."
MISS = "fx graph cache miss for key f{}"


def line(text: str, process: str = "EngineCore") -> str:
    return f"({process} pid=7) {STAMP}{text}\n"


def late(*lines: str) -> list[int]:
    return [event.line for event in late_events(parsed("".join(lines)))]


def test_without_a_monitor_kernels_are_late_from_kv_sizing_on() -> None:
    lines = [line(MISS.format(1)), line(KV), line(MISS.format(2)), line("Application startup complete.")]
    found = lateness(parsed("".join(lines)))
    assert found
    assert (found.since, found.begin.line) == (FROM_KV_SIZING, 2)
    assert late(*lines) == [3]


def test_of_several_kv_lines_the_last_one_counts() -> None:
    assert late(line(KV), line(MISS.format(1)), line(KV), line(MISS.format(2))) == [4]


def test_with_a_monitor_what_comes_between_kv_sizing_and_its_arming_is_not_late() -> None:
    lines = [line(KV), line(MISS.format(1)), line(ARMED), line(MISS.format(2))]
    found = lateness(parsed("".join(lines)))
    assert found
    assert (found.since, found.begin.line) == (FROM_MONITOR, 3)
    assert late(*lines) == [4]


def test_each_rank_has_its_own_monitor_and_others_wait_for_the_last() -> None:
    first, second = "Worker_TP0", "Worker_TP1"
    kernel = "[b12x cute.compile] miss target=x"
    assert late(
        line(KV),
        line(ARMED, first),
        line(kernel, first),
        line(kernel, second),
        line(kernel, "APIServer"),
        line(ARMED, second),
        line(kernel, second),
        line(kernel, "APIServer"),
    ) == [3, 7, 8]


def test_a_log_that_shows_neither_says_nothing() -> None:
    assert lateness(parsed(line(MISS.format(1)))) is None
    assert late(line(MISS.format(1))) == []
