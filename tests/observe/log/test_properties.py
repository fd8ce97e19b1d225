"""What holds for any log."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observe.log.support import KV, STAMP, parsed

# --- any log --------------------------------------------------------------------------------------------

FORMS = [
    KV,
    "Application startup complete.",
    "Kernel JIT monitor activated; x",
    "Triton kernel JIT compilation during inference: _k. This causes a latency spike; x",
    "Traceback (most recent call last):",
    "Loading: 50%\rLoading: 100%",
    "\x1b[31mred\x1b[0m",
    "nothing",
    "",
]
log_lines = st.tuples(
    st.sampled_from(["", "(Worker_TP0 pid=7) ", STAMP]), st.sampled_from(FORMS), st.sampled_from(["\n", "\r\n"])
).map(lambda parts: "".join(parts).encode())


@given(st.lists(st.binary(max_size=40) | log_lines, max_size=8).map(b"".join))
def test_no_bytes_break_it(log: bytes) -> None:
    for event in parsed(log):
        assert 1 <= event.line <= log.count(b"\n") + 1
        assert 0 < event.end_offset <= len(log)
        event.text.encode()


@given(st.lists(log_lines, max_size=12), st.data())
def test_a_log_cut_at_any_line_gives_the_first_of_the_events(lines: list[bytes], data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(lines)))
    part, whole = parsed(b"".join(lines[:kept])), parsed(b"".join(lines))
    assert part == whole[: len(part)]
    assert all(event.line > kept for event in whole[len(part) :])


@pytest.mark.parametrize(
    "word",
    [
        "a",
        "Using ",
        "Using a ",
        "init engine (",
        "Model Runner V2 ",
        "x JIT compilation during inference: ",
        "(a). ",
        "x.Error",
        "GPU KV cache size: 1,",
        "\x1b[",
        "\r",
    ],
)
def test_no_line_takes_time_with_the_square_of_its_length(word: str) -> None:
    line = (word * 400_000)[:400_000].encode()
    begin = time.process_time()
    parsed(line)
    assert time.process_time() - begin < 5  # with the square it is minutes
