"""vLLM's log as events: forms of lines, whatever stands around them."""

from __future__ import annotations

import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.observe.vllm_log import Event, Kind, events, kv_tokens

KV = "GPU KV cache size: 894,492 tokens, Maximum concurrency for 131,072 tokens per request: 6.82x"
STAMP = "INFO 11-29 16:27:06 [kv_cache_utils.py:2327] "


def parsed(log: bytes | str) -> list[Event]:
    return list(events(io.BytesIO(log.encode() if isinstance(log, str) else log)))


def only(log: bytes | str) -> Event:
    [event] = parsed(log)
    return event


# --- what lines say -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind", "values"),
    [
        ("Initializing a V1 LLM engine (v0.32.0) with config: model=", Kind.ENGINE_BANNER, {"version": "0.32.0"}),
        ("Starting to load model /models/mimo...", Kind.LOAD_BEGIN, {}),
        ("Loading weights took 19.01 seconds", Kind.WEIGHTS, {"seconds": "19.01"}),
        ("Starting torch.compile", Kind.COMPILE_BEGIN, {}),
        ("Warming up model for the compilation...", Kind.COMPILE_BEGIN, {}),
        ("Dynamo bytecode transform time: 4.20 s", Kind.COMPILE_BEGIN, {}),
        ("Directly load the compiled graph(s) for shape None from the cache", Kind.CACHE_HIT, {}),
        ("Directly load AOT compilation from path /c/rank_0_0/model", Kind.CACHE_HIT, {}),
        ("fx graph cache hit for key fabc12", Kind.CACHE_HIT, {"key": "fabc12"}),
        ("fx graph cache miss for key fabc12", Kind.CACHE_MISS, {"key": "fabc12"}),
        ("Compiling a graph for compile range (1, 2048) takes 5.00 s", Kind.CACHE_MISS, {}),
        ("[backbone] saved AOT compiled function to /c/model", Kind.CACHE_MISS, {}),
        ("[backbone] Compiling model again due to a load failure from /c/model", Kind.CACHE_LOAD_FAILED, {}),
        (KV, Kind.KV_TOKENS, {"tokens": "894,492", "concurrency": "6.82"}),
        ("CPU KV cache size: 2,097,152 tokens", Kind.KV_TOKENS, {"tokens": "2,097,152"}),
        ("GPU + host KV cache size: 512 tokens", Kind.KV_TOKENS, {"tokens": "512"}),
        ("Maximum concurrency for 33,000 tokens per request: 219.93x", Kind.CONCURRENCY, {"concurrency": "219.93"}),
        ("Graph capturing finished in 16 secs, took 0.17 GiB", Kind.GRAPHS, {"seconds": "16", "gib": "0.17"}),
        ("Graph capturing finished in 16 secs, took -0.02 GiB", Kind.GRAPHS, {"seconds": "16", "gib": "-0.02"}),
        ("init engine (profile, create kv cache, warmup model) took 52.63 s", Kind.ENGINE_INIT, {"seconds": "52.63"}),
        ("init engine (profile) took 87.98 s (compilation: 11.95 s)", Kind.ENGINE_INIT, {"seconds": "87.98"}),
        ("Application startup complete.", Kind.HTTP_READY, {}),
        ("Kernel JIT monitor activated; monitored JIT compilations will use mode=warn.", Kind.JIT_ARMED, {}),
        ("Using V2 Model Runner", Kind.RUNNER, {}),
        ("Model Runner V2 requires Triton; using the V1 model runner instead.", Kind.RUNNER, {}),
        ("Using FLASH_ATTN attention backend out of ['FLASH_ATTN']", Kind.ATTENTION, {"backend": "FLASH_ATTN"}),
        ("Using AttentionBackendEnum.B12X_MLA_SPARSE backend.", Kind.ATTENTION, {"backend": "B12X_MLA_SPARSE"}),
        ("Using FLASH_ATTN MLA prefill backend.", Kind.ATTENTION, {"backend": "FLASH_ATTN MLA prefill"}),
        ("max_num_scheduled_tokens is set to 2048 based on", Kind.SCHEDULED_TOKENS, {"tokens": "2048"}),
        ("Traceback (most recent call last):", Kind.ERROR, {}),
        ("RuntimeError: Worker failed", Kind.ERROR, {}),
        ("torch.OutOfMemoryError: CUDA out of memory.", Kind.ERROR, {}),
        ("EngineCore encountered a fatal error.", Kind.ERROR, {}),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_the_forms_of_a_line(line: str, kind: Kind, values: dict[str, str]) -> None:
    for log in (line, f"{STAMP}{line}", f"(EngineCore pid=7) {STAMP}{line}\n"):
        event = only(log)
        assert (event.kind, event.values, event.text, event.line) == (kind, values, line, 1)


LATE = "JIT compilation during inference:"
SPIKE = "This causes a latency spike; consider extending warmup to cover this shape/config."


@pytest.mark.parametrize(
    ("line", "backend", "kernel", "detail"),
    [
        (f"Triton kernel {LATE} _topk_kernel. {SPIKE}", "Triton", "_topk_kernel", None),
        (f"Triton kernel {LATE} _topk_kernel.", "Triton", "_topk_kernel", None),
        (f"CuTeDSL {LATE} Prefill.kernel. {SPIKE}", "CuTeDSL", "Prefill.kernel", None),
        (f"Triton autotune/warmup candidate {LATE} _k (N=4, x=(1, 2)). {SPIKE}", "Triton", "_k", "N=4, x=(1, 2)"),
    ],
    ids=["with advice", "without", "a dot in the name", "constexprs"],
)
def test_a_late_kernel_is_named(line: str, backend: str, kernel: str, detail: str | None) -> None:
    event = only(f"(Worker_TP0 pid=7) WARNING 11-29 16:27:06 [jit_monitor.py:140] {line}")
    assert event.kind is Kind.LATE_JIT
    assert event.values == {"backend": backend, "kernel": kernel} | ({"detail": detail} if detail else {})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Loading drafter model...",
        "Using CPU Unquantized MoE backend out of potential backends: ['CPU'].",
        "Using 'B12X' NvFp4 MoE backend out of potential backends: ['B12X', 'FLASHINFER'].",
        "Current kv cache memory in use is 12.26 GiB.",
        'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        "no error: everything is fine",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert parsed(line) == []


@pytest.mark.parametrize(("level", "errors"), [("INFO", 0), ("WARNING", 0), ("ERROR", 1), ("CRITICAL", 1)])
def test_a_line_of_an_error_level_is_an_error_whatever_it_says(level: str, errors: int) -> None:
    found = parsed(f"(EngineCore pid=7) {level} 11-29 16:27:06 [core.py:1] something new\n")
    assert [event.kind for event in found] == [Kind.ERROR] * errors


def test_a_known_line_of_an_error_level_is_what_it_says() -> None:
    assert only(f"ERROR 11-29 16:27:06 [x.py:1] {KV}").kind is Kind.KV_TOKENS


def test_kv_tokens_are_a_number() -> None:
    assert kv_tokens(only(KV)) == 894_492


# --- what stands around them ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "process"),
    [
        ("", ""),
        ("(EngineCore pid=123) ", "EngineCore"),
        ("(EngineCore_0 pid=123) ", "EngineCore_0"),
        ("(EngineCore_DP0 pid=123) ", "EngineCore_DP0"),
        ("(APIServer pid=1) ", "APIServer"),
        ("(Worker_PP0_TP1 pid=99) ", "Worker_PP0_TP1"),
        ("(VllmWorker rank=0 pid=99) ", "VllmWorker rank=0"),
        ("(VllmWorker-0 pid=99) ", "VllmWorker-0"),
    ],
)
def test_a_prefix_names_the_process(prefix: str, process: str) -> None:
    event = only(f"{prefix}{STAMP}{KV}\n")
    assert (event.process, event.text) == (process, KV)


@pytest.mark.parametrize(
    "log",
    [
        f"{STAMP}{KV}\r\n".encode(),
        f"\x1b[36m(EngineCore pid=7)\x1b[0;0m \x1b[32mINFO\x1b[0m 11-29 16:27:06 [a.py:1] {KV}\x1b[0m\n".encode(),
        f"\rCapturing:   0%|  \rCapturing:  50%|# \rCapturing: 100%|##\r{STAMP}{KV}\n".encode(),
        f"Aug 11 20:31:07 host-1 bash[123]: {STAMP}{KV}\n".encode(),
        f"Capturing: 100%|##(EngineCore pid=7) {STAMP}{KV}\n".encode(),
        b"\xff\xfe \xe9t\xe9 " + KV.encode() + b"\n",
        KV.encode(),
    ],
    ids=["CRLF", "colours", "a progress bar before it", "journald", "a bar without an end", "not UTF-8", "no newline"],
)
def test_the_line_is_understood_all_the_same(log: bytes) -> None:
    event = only(log)
    assert (event.kind, kv_tokens(event), event.end_offset) == (Kind.KV_TOKENS, 894_492, len(log))


def test_of_a_progress_bar_the_last_state_counts() -> None:
    assert parsed(f"{KV}\rReading: 100%\n") == []


def test_bytes_that_are_no_text_are_shown_as_escapes() -> None:
    assert only(b"RuntimeError: \xff\n").text == "RuntimeError: \\xff"


def test_lines_are_numbered_and_end_where_the_file_says() -> None:
    log = f"first\n{STAMP}{KV}\r\n\nApplication startup complete.\n".encode()
    found = parsed(log)
    assert [event.line for event in found] == [2, 4]
    assert [log[: event.end_offset].count(b"\n") for event in found] == [2, 4]
    assert found[-1].end_offset == len(log)


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
