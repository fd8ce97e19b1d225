"""What a log says as a whole: which rank counts, what a failure was, and what is not known."""

from __future__ import annotations

import pytest

from harness.observe.log import events
from harness.observe.log.fact import CONCURRENCY, POOL, Facts
from harness.observe.log.facts import facts
from tests.observe.log.support import KV
from tests.observe.shared_logs import log_bytes

BANNER = "Initializing a V1 LLM engine (v0.32.0) with config: model='/m', "
READY = "INFO:     Application startup complete."
STOP = "[shutdown] API server: shutdown triggered"
FATAL = "EngineCore encountered a fatal error."
NOT_STARTED = "EngineCore failed to start."


def line(text: str, process: str = "EngineCore", level: str = "INFO", source: str = "core.py") -> str:
    return f"({process} pid=7) {level} 11-29 16:27:06 [{source}:1] {text}"


def error(text: str, process: str = "EngineCore") -> str:
    return line(text, process, "ERROR")


def of(*lines: str) -> Facts:
    return facts(events(["".join(f"{text}\n" for text in lines).encode()]))


def column(found: Facts, name: str) -> object:
    fact = found.columns[name]
    return None if fact is None else fact.value


def resolved(found: Facts, name: str) -> object:
    fact = found.resolved[name]
    return None if fact is None else fact.value


# --- which rank counts ----------------------------------------------------------------------------------


def loaded(gib: float, process: str) -> str:
    return line(f"Model loading took {gib} GiB memory and 2.0 seconds", process)


def test_the_first_rank_speaks_for_memory_and_graphs_whoever_was_first() -> None:
    found = of(
        *(loaded(9 + n, f"Worker_TP{n}_DCP{n}") for n in (2, 0, 10, 1)),
        *(line(f"Graph capturing finished in {n} secs, took 0.{n} GiB", f"Worker_TP{n}") for n in (3, 1, 2)),
    )
    assert (column(found, "model_load_gib"), column(found, "graph_capture_s")) == (9.0, 1)
    assert found.columns["model_load_gib"]
    assert found.columns["model_load_gib"].process == "Worker_TP0_DCP0"


def test_the_first_pipeline_stage_comes_before_the_first_tensor_rank() -> None:
    assert column(of(loaded(1, "Worker_PP1_TP0"), loaded(2, "Worker_PP0_TP1")), "model_load_gib") == 2.0


def test_the_least_kv_memory_of_all_ranks_counts() -> None:
    found = of(*(line(f"Available KV cache memory: {gib} GiB", f"Worker_TP{n}") for n, gib in enumerate((5.5, 4.5, 5))))
    assert column(found, "available_kv_gib") == 4.5


def test_engines_that_share_the_requests_add_up_their_caches_and_the_slowest_is_waited_for() -> None:
    found = of(
        *(line(f"GPU KV cache size: {n},000 tokens", f"EngineCore_DP{n}") for n in (1, 2)),
        *(line(f"Maximum concurrency for 99 tokens per request: {n}.50x", f"EngineCore_DP{n}") for n in (1, 2)),
        *(line(f"init engine (x) took {n}.00 s (compilation: 0.{n} s)", f"EngineCore_DP{n}") for n in (2, 1)),
    )
    assert (column(found, "kv_cache_tokens"), column(found, "max_concurrency_x")) == (3_000, 4.0)
    assert (column(found, "engine_init_s"), column(found, "compile_s")) == (2.0, 0.2)


def test_of_sizes_in_a_row_the_least_counts_and_of_later_ones_the_last() -> None:
    row = [line(f"GPU KV cache size: {size} tokens") for size in (300, 100, 200)]
    assert column(of(*row), "kv_cache_tokens") == 100
    assert column(of(*row, line("Using max model len 10"), row[0]), "kv_cache_tokens") == 300


def test_kernels_of_all_ranks_are_counted_and_named_once() -> None:
    late = "Triton kernel JIT compilation during inference: {}. x"
    found = of(*(line(late.format(k), f"Worker_TP{n}") for n in (0, 1) for k in ("_b", "_a")))
    assert (column(found, "late_jit_warnings"), column(found, "late_jit_kernels")) == (4, "_b;_a")


# --- what was resolved ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "meaning"),
    [
        ([], None),
        ([line("GPU KV cache size: 9 tokens")], None),
        ([line(KV)], CONCURRENCY),
        ([line("GPU KV cache size: 9 tokens"), line("init engine (x) took 1.00 s")], CONCURRENCY),
        ([line("GPU KV cache size: 9 tokens"), line("init engine (x) took 1.00 seconds")], POOL),
        (
            [line("Multiplying the GPU KV cache size by the dcp_world_size 4."), line("GPU KV cache size: 9 tokens")],
            POOL,
        ),
    ],
    ids=["nothing", "the size alone", "one line", "s", "seconds", "multiplied"],
)
def test_what_the_kv_size_means_is_told_by_the_lines_around_it(lines: list[str], meaning: str | None) -> None:
    assert resolved(of(line(BANNER), *lines), "kv_meaning") == meaning


@pytest.mark.parametrize(
    ("lines", "runner"),
    [
        ([], None),
        ([line("Using V2 Model Runner")], "V2"),
        ([line("Model Runner V2 requires Triton; using the V1 model runner instead.")], "V1"),
        ([line("Model loading took 1.0 GiB and 1.0 seconds", source="gpu_model_runner.py")], "V1"),
        ([line("Starting to load model /m...", source="cpu_model_runner.py")], "V1"),
        ([line("Model loading took 1.0 GiB and 1.0 seconds", source="model_runner.py")], "V2"),
        ([line("Model loading took 1.0 GiB and 1.0 seconds", source="other.py")], None),
    ],
)
def test_the_runner_is_as_said_or_as_the_loading_files_name(lines: list[str], runner: str | None) -> None:
    assert resolved(of(line(BANNER), *lines), "runner") == runner


def test_the_older_engine_had_a_file_of_the_newer_runners_name() -> None:
    loading = line("Model loading took 1.0 GiB and 1.0 seconds", source="model_runner.py")
    assert resolved(of(line(BANNER.replace("V1", "V0")), loading), "runner") is None


def test_the_banner_holds_the_configuration() -> None:
    found = of(
        line(
            BANNER + "speculative_config=SpeculativeConfig(method='mtp', model='/m', num_spec_tokens=3), "
            "max_seq_len=2048, tensor_parallel_size=4, quantization=None, enforce_eager=False, kv_cache_dtype=fp8, "
            "compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': "
            "<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'cudagraph_capture_sizes': [1, 2, 4]}"
        )
    )
    expected = {
        "speculative_method": "mtp",
        "draft_tokens": 3,
        "max_model_len": 2048,
        "tensor_parallel": 4,
        "quantization": "none",
        "enforce_eager": False,
        "kv_cache_dtype": "fp8",
        "compilation_mode": "VLLM_COMPILE",
        "cudagraph_mode": "FULL_AND_PIECEWISE",
        "cudagraph_sizes": "1, 2, 4",
        "pipeline_parallel": None,
    }
    assert {name: resolved(found, name) for name in expected} == expected


def test_backends_are_named_once_each() -> None:
    found = of(
        line(BANNER),
        *(line("Using AttentionBackendEnum.B12X backend.", f"Worker_TP{n}") for n in range(4)),
        line("Using FLASH_ATTN MLA prefill backend."),
        line("Using 'B12X' NvFp4 MoE backend."),
        line("Using ['CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0' out of x"),
    )
    assert resolved(found, "attention") == "B12X; FLASH_ATTN MLA prefill"
    assert (resolved(found, "moe"), resolved(found, "all_reduce")) == ("B12X NvFp4", "tp:0: CUSTOM, PYNCCL")


def test_the_compile_cache_counts_until_the_server_is_ready() -> None:
    hit, miss = line("Directly load AOT compilation from path /c"), line("saved AOT compiled function to /c")
    failed = line("Compiling model again due to a load failure from /c, reason: x")
    assert resolved(of(line(BANNER), hit, failed, miss, READY, miss), "compile_cache") == "1 hit, 1 load failed, 1 miss"
    assert resolved(of(line(BANNER), line("vLLM's torch.compile cache is disabled.")), "compile_cache") == "disabled"
    assert resolved(of(line(BANNER), READY), "compile_cache") is None


# --- how it ended ---------------------------------------------------------------------------------------


def outcome(*lines: str) -> tuple[object, object]:
    found = of(line(BANNER), *lines)
    return column(found, "ready"), column(found, "failure_class")


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("ValueError: No available memory for the cache blocks.", "kv_starvation"),
        (
            (
                "ValueError: Free memory on device (1.0/2.0 GiB) on startup is less than desired GPU memory "
                "utilization (0.9, 1.8 GiB)."
            ),
            "free_memory_below_target",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory.", "oom"),
        ("ModuleNotFoundError: No module named 'a_ext'", "missing_extension"),
        ("RuntimeError: x exceeds dimension size (64).", "weight_shape"),
        ("ValueError: x is not supported", "unsupported_config"),
        ("KeyError: 'x'", "other"),
    ],
)
def test_a_failed_start_has_a_class(text: str, failure: str) -> None:
    assert outcome(error(text, "Worker"), error(NOT_STARTED)) == ("no", failure)
    assert outcome(text) == ("no", failure)


def test_a_start_that_goes_on_has_not_failed() -> None:
    quoted = error("ModuleNotFoundError: No module named 'flash_attn'")
    assert outcome(quoted) == (None, None)
    assert outcome(quoted, line(KV), error("KeyError: 'x'"), error(NOT_STARTED)) == ("no", "other")
    assert outcome("ValueError: x is not supported", line(KV, "Worker")) == (None, None)
    assert outcome(quoted, error(NOT_STARTED), READY) == ("yes", None)


def test_another_ranks_progress_excuses_nothing() -> None:
    died = error("torch.OutOfMemoryError: CUDA out of memory.", "Worker_TP1")
    assert outcome(died, loaded(1, "Worker_TP0"), error(NOT_STARTED)) == ("no", "oom")


def test_the_first_known_cause_counts_and_not_what_follows_from_it() -> None:
    found = of(
        line(BANNER),
        error("KeyError: 'x'", "Worker"),
        error("ModuleNotFoundError: No module named 'a_ext'", "Worker"),
        error("RuntimeError: Worker failed, which is not supported"),
        error(NOT_STARTED),
    )
    assert found.failed
    assert (found.failed.failure, found.failed.line, found.failed.details["module"]) == (
        "missing_extension",
        3,
        "a_ext",
    )


def test_an_engine_that_dies_after_ready_says_of_what() -> None:
    found = of(line(BANNER), READY, error("TypeError: x", "Worker"), error(FATAL), error("KeyError"))
    assert (column(found, "ready"), column(found, "failure_class")) == ("yes", "engine_death_after_ready")
    assert found.failed
    assert (found.failed.line, found.failed.text) == (3, "TypeError: x")
    assert found.errors_after_ready
    assert (found.errors_after_ready.value, found.errors_after_ready.line) == (3, 3)


KILLED = "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor."
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:41463"


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ((error(LOST, "Worker_TP0"), error(KILLED)), KILLED),
        ((error(KILLED), error("RuntimeError: cancelled")), KILLED),
        ((error(LOST, "Worker_TP0"), error("KeyError: 'x'", "Worker_TP1"), error(KILLED)), "KeyError: 'x'"),
        ((error(KILLED), error("ValueError: CUDA out of memory", "Worker_TP1")), "ValueError: CUDA out of memory"),
        ((error(LOST, "Worker_TP0"),), LOST),
    ],
    ids=["its peer tells first", "the engine after it", "its own words", "a known class", "no worker's death"],
)
def test_a_workers_death_is_the_cause_and_not_what_the_others_say_of_it(lines: tuple[str, ...], named: str) -> None:
    found = of(line(BANNER), READY, *lines, error(FATAL))
    assert found.failed
    assert (found.failed.failure, found.failed.text) == ("engine_death_after_ready", named)


def test_the_death_of_a_killed_worker_is_the_cause_in_a_real_log() -> None:
    found = facts(events([log_bytes("golden/death_v0.32.0_cpu_tp2_worker_killed.log")]))
    assert found.failed
    assert (found.failed.line, found.failed.text) == (108, KILLED)


def test_a_death_that_a_later_start_of_the_same_engine_outlived_names_nothing() -> None:
    found = of(line(BANNER), error(KILLED), line(KV), error("KeyError: 'x'"), error(NOT_STARTED))
    assert found.failed
    assert found.failed.text == "KeyError: 'x'"


def test_errors_of_requests_and_of_stopping_are_no_death() -> None:
    assert outcome(READY, error("Exception caught. Request id: x"), error("ValueError: x")) == ("yes", None)
    assert outcome(READY, line(STOP, "APIServer"), error(FATAL)) == ("yes", None)
    found = of(line(BANNER), READY, error("a"), line(STOP), error(FATAL))
    assert found.errors_after_ready
    assert found.errors_after_ready.value == 1


# --- what is not known ----------------------------------------------------------------------------------


def test_nothing_is_known_of_what_is_no_log() -> None:
    found = of("hello", "ValueError: x", "Shutting down", KV)
    assert not found.is_log
    assert set(found.columns.values()) == set(found.resolved.values()) == {None}
    assert (found.failed, found.errors_after_ready) == (None, None)


def test_a_kernel_librarys_misses_and_hits_are_counted_once_each() -> None:
    told = (
        "miss",
        "python_stack (most recent call last):",
        "compile-start number=1",
        "compile-done number=1",
        "miss reason=x",
        "compile-start number=2",
        "compile-failed number=2",
        "disk-hit",
        "disk-hit-after-wait",
        "disk-hit-after-wait",
    )
    found = of(line("x"), *(f"[b12x cute.compile] {one}" for one in told))
    assert [column(found, n) for n in ("b12x_misses", "b12x_hits")] == [2, 3]


def test_counts_of_a_log_are_0_and_sums_over_no_lines_are_not() -> None:
    found = of(line("x"))
    assert [column(found, n) for n in ("late_jit_warnings", "b12x_misses", "b12x_hits", "spec_lines")] == [0] * 4
    assert [column(found, n) for n in ("spec_accepted_sum", "spec_drafted_sum", "late_jit_kernels")] == [None] * 3
    assert found.errors_after_ready is None


@pytest.mark.parametrize(
    ("lines", "armed"),
    [
        ([line("x")], None),
        ([line(BANNER)], None),
        ([line(BANNER), READY], "no"),
        ([line(BANNER), error(NOT_STARTED)], "no"),
        ([line("x"), READY], None),
        ([BANNER, KV, "ValueError: x"], None),
        ([line("Kernel JIT monitor activated; x")], "yes"),
    ],
    ids=["an excerpt", "a start", "ready", "failed", "the end alone", "texts without a logger", "armed"],
)
def test_the_monitor_was_not_armed_only_where_the_whole_start_says_so(lines: list[str], armed: str | None) -> None:
    assert column(of(*lines), "jit_monitor_armed") == armed
