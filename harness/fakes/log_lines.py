"""The log of vLLM 0.32.0 on a CPU, line for line in its forms.

A line goes out in one write to the descriptor: whole, at once, and also while another thread dies.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.fakes.eras import NEWEST, Era
from harness.fakes.settings import Settings

LOGO = (
    "",
    "       █     █     █▄   ▄█",
    " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}",
    "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
    "",
)
ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
VARIABLES = ("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR", "VLLM_NO_USAGE_STATS")
"""Those of vLLM's list that a launcher sets; its forks know more."""
PACKAGES = "/opt/venv/lib/python3.11/site-packages"


@dataclass(frozen=True)
class Line:
    """One log call: who, how bad, where, what. A message of several lines gets the prefix on each."""

    process: str
    """APIServer, EngineCore or Worker; here all are one process, and show its pid, but for workers of several ranks."""
    level: str
    source: str
    message: str
    rank: int = 0
    """Of a worker; most lines are the first one's."""


class Speech:
    """How this process speaks: one server, one version, one way."""

    era: Era = NEWEST
    torn: bool = False
    workers: Sequence[tuple[str, int]] = ()
    """Name and pid of each rank's process; none where the server is a single process, or has not started them."""


def write(text: str, rank: int | None = None) -> None:
    """Put text of others than vLLM into the log, with a line's end: what a worker prints has its prefix."""
    if rank is not None and Speech.workers:
        _put(_who("Worker", rank) + text)
    else:
        _put(_who("APIServer") + text if Speech.era.prefix == "every line" else text)


def log(*lines: Line) -> None:
    """Write lines with vLLM's prefix."""
    for line in lines:
        stamp = time.strftime("%m-%d %H:%M:%S")
        process = Speech.era.engine if line.process == "EngineCore" else line.process
        who = "" if Speech.era.prefix == "none" else _who(process, line.rank)
        prefix = f"{who}{line.level} {stamp} [{line.source}] "
        text = "\n".join(prefix + part for part in line.message.split("\n"))
        if Speech.torn:
            _put(f"{text[:20]}(Worker_TP1 pid=7) INFO {stamp} [worker.py:1] \x1b[1;36mtorn\x1b[0;0m", b"\xff\xfe\n")
        _put(text)


def worker_pid(rank: int) -> int:
    """Of a rank; this process's own where it has no workers."""
    return Speech.workers[rank][1] if Speech.workers else os.getpid()


def _who(process: str, rank: int = 0) -> str:
    who, pid = Speech.workers[rank] if process == "Worker" and Speech.workers else (process, os.getpid())
    name = f"({who} pid={pid})"
    return f"\x1b[1;36m{name}\x1b[0;0m " if Speech.era.coloured else f"{name} "


def _put(text: str, end: bytes = b"\n") -> None:
    # Nobody may be reading any more; a server serves on without its log.
    with contextlib.suppress(OSError):
        os.write(1, text.encode() + end)


def banner(settings: Settings) -> Iterator[Line]:
    """What the API server says first."""
    arguments = {"model_tag": settings.model, **settings.flags, "model": settings.model}
    yield Line(
        "APIServer",
        "INFO",
        "api_utils.py:347",
        "\n".join(LOGO).format(model=settings.model, version=settings.era.version),
    )
    yield Line("APIServer", "INFO", "api_utils.py:286", f"non-default args: {arguments}")
    yield Line("APIServer", "INFO", "model.py:733", "Resolved architecture: MiMoForCausalLM")
    yield Line("APIServer", "INFO", "model.py:2152", f"Using max model len {settings.max_model_len}")
    if settings.draft_tokens:
        yield Line("APIServer", "INFO", "model.py:733", "Resolved architecture: MiMoMTPModel")
        yield Line(
            "APIServer",
            "WARNING",
            "vllm.py:2276",
            "max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings. This may lead to "
            "suboptimal performance. Consider increasing max_num_batched_tokens to accommodate the additional draft "
            "token slots, or decrease num_speculative_tokens.",
        )
    if (tokens := settings.flags.get("max_num_batched_tokens")) is not None:
        chunks = f"Chunked prefill is enabled with max_num_batched_tokens={tokens}."
        yield Line("APIServer", "INFO", "scheduler.py:222", chunks)
    if settings.faults.hit("v2-runner"):
        yield Line("Worker", "INFO", "gpu_worker.py:300", "Using V2 Model Runner")
        return
    runner = "Model Runner V2 requires Triton; using the V1 model runner instead."
    yield Line("APIServer", "WARNING", "vllm.py:725", runner)


def unknown_variables(environ: Mapping[str, str]) -> Iterator[Line]:
    """What begins like vLLM's variables and is none of those that a launcher sets."""
    for name in sorted(n for n in environ if n.startswith("VLLM_") and n not in VARIABLES):
        yield Line("APIServer", "WARNING", "envs.py:2374", f"Unknown vLLM environment variable detected: {name}")


def engine_banner(settings: Settings) -> Line:
    """The engine's configuration."""
    model = repr(settings.model)
    speculative = (
        f"SpeculativeConfig(method='mtp', model={model}, num_spec_tokens=1)" if settings.draft_tokens else None
    )
    mode = "<CompilationMode.NONE: 0>" if settings.eager else "<CompilationMode.DYNAMO_TRACE_ONCE: 2>"
    warm = not settings.eager
    return Line(
        "EngineCore",
        "INFO",
        "core.py:133",
        f"Initializing a V1 LLM engine (v{settings.era.version}) with config: model={model}, "
        f"speculative_config={speculative}, tokenizer={model}, skip_tokenizer_init=False, tokenizer_mode=auto, "
        "revision=None, tokenizer_revision=None, "
        f"trust_remote_code=False, dtype=torch.bfloat16, max_seq_len={settings.max_model_len}, download_dir=None, "
        f"load_format=auto, tensor_parallel_size={settings.tensor_parallel}, "
        f"pipeline_parallel_size={settings.pipeline_parallel}, data_parallel_size=1, "
        f"decode_context_parallel_size={settings.decode_context_parallel}, dcp_comm_backend=ag_rs, "
        "disable_custom_all_reduce=True, quantization=None, "
        f"quantization_config=None, enforce_eager={settings.eager}, kv_cache_dtype=auto, device_config=cpu, seed=0, "
        f"served_model_name={settings.served_name}, enable_prefix_caching=True, enable_chunked_prefill=True, "
        f"pooler_config=None, compilation_config={{'mode': {mode}, 'debug_dump_path': None, 'backend': 'inductor', "
        "'custom_ops': ['none'], 'splitting_ops': [], 'cudagraph_mode': <CUDAGraphMode.NONE: 0>, "
        "'cudagraph_capture_sizes': [], 'max_cudagraph_capture_size': None}, "
        f"kernel_config=KernelConfig(enable_flashinfer_autotune=True, enable_cutedsl_warmup=True, "
        f"enable_jit_warmup={warm}, moe_backend='auto', linear_backend='auto')",
    )


def places(settings: Settings) -> Iterator[Line]:
    """Which process is to be which rank, where there are several."""
    for rank in range(len(settings.worker_names)):
        told = f"world_size={settings.ranks} rank={rank} local_rank={rank}"
        told += " distributed_init_method=file:///tmp/qualify backend=gloo"
        yield Line("Worker", "INFO", "parallel_state.py:1906", told, rank)


def weights(settings: Settings) -> Iterator[Line | str]:
    """Loading, once for the model and once for the drafter; text without a prefix is a progress bar."""
    for rank in range(settings.ranks):
        yield Line("Worker", "INFO", "cpu_model_runner.py:68", f"Starting to load model {settings.model}...", rank)
    for drafter in range(1 + settings.draft_tokens):
        if drafter:
            yield Line("Worker", "INFO", "cpu_model_runner.py:75", "Loading drafter model...")
        yield "\rLoading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]"
        yield "\rLoading safetensors checkpoint shards: 100% Completed | 1/1 [00:00<00:00, 16.20it/s]\n"
        yield Line("Worker", "INFO", "default_loader.py:501", "Loading weights took 0.01 seconds")


def kv_cache(settings: Settings) -> Iterator[Line]:
    """Warm-up and the KV cache's size; the JIT monitor's line where it was asked for."""
    if not settings.eager:
        yield Line("Worker", "INFO", "cpu_model_runner.py:87", "Warming up model for the compilation...")
        yield Line("Worker", "INFO", "cpu_model_runner.py:91", "Warming up done.")
    for rank in range(settings.ranks):
        given = "Explicitly set (1.0/15.09) GiB for KV cache on node 0."
        yield Line("Worker", "INFO", "cpu_worker.py:260", given, rank)
    # Builds for the CPU say GPU, too, until the word became the device's.
    size = f"{'CPU' if settings.era.kv == 'by device' else 'GPU'} KV cache size: {settings.kv_tokens:,} tokens"
    room = f"Maximum concurrency for {settings.max_model_len:,} tokens per request: {settings.max_concurrency:.2f}x"
    for message in (size, room) if settings.era.kv == "two lines" else (f"{size}, {room}",):
        yield Line("EngineCore", "INFO", "kv_cache_utils.py:2327", message)
    if settings.jit_monitor and settings.era.jit_monitor is not None:
        for rank in range(settings.ranks):
            yield Line("Worker", "INFO", "jit_monitor.py:84", settings.era.jit_monitor, rank)


def engine_ready(settings: Settings, seconds: float) -> Line:
    """The engine's own account of its start."""
    message = f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} {settings.era.seconds}"
    return Line("EngineCore", "INFO", "core.py:402", message)


def serving(settings: Settings) -> Iterator[Line]:
    """What the API server says before its first request."""
    yield Line("APIServer", "INFO", "entry.py:136", "Supported tasks: ['generate']")
    address = f"http://{settings.host}:{settings.port}"
    yield Line("APIServer", "INFO", "entry.py:140", settings.era.server.format(address=address))


def late_jit(kernel: str, rank: int = 0) -> Line:
    """The JIT monitor's warning."""
    return Line(
        "Worker",
        "WARNING",
        "jit_monitor.py:140",
        f"Triton kernel JIT compilation during inference: {kernel}. This causes a latency spike; consider extending "
        "warmup to cover this shape/config.",
        rank,
    )


def error_line() -> Line:
    """An error that the engine survives."""
    return Line("EngineCore", "ERROR", "core.py:991", "Failed to release a block: it is still referenced")


def worker_death(rank: int) -> Line:
    """What the engine says of a worker that is gone, up to ten seconds before it ends itself."""
    told = f"Worker proc VllmWorker-{rank} died unexpectedly (exit code: -9), shutting down executor."
    return Line("EngineCore", "ERROR", "multiproc_executor.py:315", told)


def engine_death() -> Iterator[Line]:
    """The engine's last words, and the API server's answer to them."""
    yield Line(
        "EngineCore",
        "ERROR",
        "core.py:1512",
        "EngineCore encountered a fatal error.\n"
        "Traceback (most recent call last):\n"
        f'  File "{PACKAGES}/vllm/v1/engine/core.py", line 1496, in run_engine_core\n'
        "    engine_core.run_busy_loop()\n"
        "RuntimeError: Worker failed with error 'fault on demand', please check the stack trace above for the root "
        "cause",
    )
    yield Line(
        "APIServer",
        "ERROR",
        "async_llm.py:906",
        "AsyncLLM output_handler failed.\n"
        "Traceback (most recent call last):\n"
        f'  File "{PACKAGES}/vllm/v1/engine/async_llm.py", line 849, in output_handler\n'
        "    outputs = await engine_core.get_output_async()\n"
        f"vllm.v1.engine.exceptions.EngineDeadError: {ENGINE_DEAD}",
    )


def start_failure() -> str:
    """The traceback of an engine that never came up; vLLM prints it without a prefix."""
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/bin/vllm", line 8, in <module>\n'
        "    sys.exit(main())\n"
        "             ^^^^^^\n"
        f'  File "{PACKAGES}/vllm/v1/engine/utils.py", line 1431, in wait_for_engine_startup\n'
        "    raise RuntimeError(\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    )


def shutdown() -> Iterator[Line]:
    """The orderly end after SIGTERM, up to uvicorn's part."""
    if not Speech.era.shutdown:
        yield Line("APIServer", "INFO", "launcher.py:77", "Shutting down FastAPI HTTP server.")
        return
    for process, source, message in (
        ("APIServer", "launcher.py:254", "API server: shutdown triggered"),
        ("APIServer", "launcher.py:270", "API server: stopping engine client mode=abort timeout=0s"),
        ("APIServer", "utils.py:628", "Process manager: send sigterm to process EngineCore"),
        ("EngineCore", "core.py:1454", "EngineCore: trigger received signal=SIGTERM"),
        ("EngineCore", "core.py:1635", "EngineCore: start mode=abort timeout=0s"),
        ("EngineCore", "core.py:1499", "EngineCore: exiting busy loop"),
        ("APIServer", "core_client.py:777", "MPClient: complete"),
        ("APIServer", "launcher.py:279", "API server: engine client stopped"),
        ("APIServer", "launcher.py:304", "API server: shutting down FastAPI HTTP server"),
    ):
        yield Line(process, "INFO", source, f"[shutdown] {message}")
