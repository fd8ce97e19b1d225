"""What holds for any log."""

from __future__ import annotations

import itertools
import random
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.observe.log import Kind, events
from harness.observe.log.blocks import PIECE_BYTES, blocks
from harness.observe.log.facts import facts
from harness.observe.log.forms import FORMS
from tests.observe.log.support import KV, STAMP, parsed
from tests.observe.log.test_forms import CASES

LINES = [
    *(line for _, line, _ in CASES),
    KV,
    "Loading: 50%\rLoading: 100%",
    "\x1b[31mred\x1b[0m",
    f'{{"levelname": "ERROR", "name": "vllm.x", "message": "{KV}"}}',
    '{"MESSAGE": "x", "PRIORITY": "3"}',
    "nothing",
    "",
]
AROUND = ["", "(Worker_TP0 pid=7) ", STAMP, f"(APIServer pid=1) {STAMP}", "\x1b[1;36m(A pid=1)\x1b[0;0m ", "a-1  | "]
log_lines = st.tuples(st.sampled_from(AROUND), st.sampled_from(LINES), st.sampled_from(["\n", "\r\n", "\r", ""])).map(
    lambda parts: "".join(parts).encode()
)
logs = st.lists(st.binary(max_size=40) | log_lines, max_size=10).map(b"".join)


@given(logs)
def test_no_bytes_break_it(log: bytes) -> None:
    found = list(events([log]))
    for event in found:
        assert event.line == log.count(b"\n", 0, event.offset) + 1
        assert 0 <= event.offset < event.end_offset <= len(log)
        assert log[event.end_offset - 1] in b"\r\n"
        event.text.encode()
        assert event.speaker.name == event.process
    assert [e.offset for e in found] == sorted(e.offset for e in found)
    facts(found)


@given(logs, st.data())
def test_a_log_cut_anywhere_gives_the_first_of_its_events(log: bytes, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(log)))
    part, whole = list(events([log[:kept]])), list(events([log]))
    assert part == whole[: len(part)]
    assert all(event.end_offset > kept for event in whole[len(part) :])


@given(logs, st.lists(st.integers(0, 300), max_size=8))
def test_chunks_change_nothing(log: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    assert list(events(log[a:b] for a, b in itertools.pairwise(edges))) == list(events([log]))


@given(st.integers(0, 2**32))
def test_blocks_are_the_log_and_chunks_change_nothing_of_them(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([10, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES, 20 * PIECE_BYTES])
    log = bytes(size).join([b"a\n", b"b\r", b"c\r\n", b"d"])
    cuts = sorted(rng.randrange(len(log)) for _ in range(rng.randrange(6)))
    chunks = [log[a:b] for a, b in itertools.pairwise([0, *cuts, len(log)])]
    for block in blocks(chunks):
        assert block.line == log.count(b"\n", 0, block.offset) + 1
        kept = len(block.data) - (1 if block.skipped else 0)
        assert block.data[:kept] == log[block.offset : block.offset + kept]
        end = block.offset + len(block.data) + block.skipped
        assert log[end - 1 : end] == block.data[-1:]


@pytest.mark.parametrize("size", [PIECE_BYTES - 400, PIECE_BYTES, PIECE_BYTES * 3, PIECE_BYTES * 9])
@pytest.mark.parametrize("chunk", [1_000, PIECE_BYTES, 1 << 20])
def test_a_long_line_is_read_up_to_a_limit_and_the_next_one_whole(size: int, chunk: int) -> None:
    log = f"{STAMP}{KV}".encode() + b" " * size + f"{STAMP}{KV}\n{STAMP}{KV}\n".encode()
    found = [e for e in events(log[at : at + chunk] for at in range(0, len(log), chunk)) if e.kind is Kind.KV_TOKENS]
    assert [e.line for e in found] == ([1, 1, 2] if size < PIECE_BYTES else [1, 2])
    assert {log[e.end_offset - 1] for e in found} == {ord("\n")}


def peak_bytes(chunks: Iterator[bytes]) -> int:
    tracemalloc.start()
    try:
        facts(events(chunks))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def repeated(piece: bytes, total_bytes: int) -> Iterator[bytes]:
    return itertools.repeat(piece, total_bytes // len(piece))


@pytest.mark.parametrize(
    "line",
    [
        f"{STAMP}nothing to see here\n".encode(),
        b"\rCapturing CUDA graphs (decode, FULL):  50%|#####     | 5/10",
        b"no end of a line ",
        f"(Worker_TP0 pid=7) ERROR 11-29 16:27:06 [x.py:1] {KV}\n".encode(),
    ],
    ids=["lines", "progress bars", "one line", "errors"],
)
def test_memory_does_not_grow_with_the_log(line: bytes) -> None:
    chunk = line * (10_000 // len(line))
    small, large = (peak_bytes(repeated(chunk, size)) for size in (1_000_000, 4_000_000))
    assert large < small + 300_000
    assert large < 6_000_000


def test_memory_does_not_grow_with_what_strangers_name() -> None:
    def chunks(count: int) -> Iterator[bytes]:
        for n in range(count):
            yield f"(W{n} pid=1) {STAMP}Triton kernel JIT compilation during inference: k{n}.\n".encode()
            yield f"(W{n} pid=1) {STAMP}Model loading took 1.0 GiB and 1.0 seconds\n".encode()

    small, large = peak_bytes(chunks(5_000)), peak_bytes(chunks(8_000))
    assert large < small + 300_000


def test_a_log_is_read_faster_than_any_server_writes_it() -> None:
    """`benchmarks/log_parser.py` measures; the bar here is one that no busy machine misses."""
    access = 'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    log = (f"{STAMP}{KV}\n" + access * 50).encode() * 2_000
    rates = []
    for _ in range(3):
        begin = time.process_time()
        assert sum(1 for _ in events([log])) == 2_001
        rates.append(len(log) / 1e6 / (time.process_time() - begin))
    assert max(rates) > 5  # MB/s


@pytest.mark.parametrize("word", [
    "a", "(", "[", "{", '{"message": "', "Using ", "Using a ", "init engine (", "Model Runner V2 ", "(A pid=1) ",
    "x JIT compilation during inference: ", "x JIT compilation during inference: k (", "(a). ", "x.Error", "a.",
    "Error: ", "INFO 11-29 16:27:06 [x.py:1] ", "SpecDecoding metrics: ", "2026-", "a | ", "\x1b[", "\r", "1: ",
    *(form.word.decode() for form in FORMS),
])  # fmt: skip
def test_no_line_takes_time_with_the_square_of_its_length(word: str) -> None:
    line = (word * 400_000)[:400_000].encode() + b"\n"
    begin = time.process_time()
    parsed(line)
    assert time.process_time() - begin < 5  # with the square it is minutes
