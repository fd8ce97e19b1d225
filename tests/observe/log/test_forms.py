"""What lines say: one case per form, whatever version printed it."""

from __future__ import annotations

import re

import pytest

from harness.observe.log import Kind, Value
from harness.observe.log.forms import FORMS
from tests.observe.log.support import KV, STAMP, only, parsed

SPIKE = "This causes a latency spike; consider extending warmup to cover this shape/config."
LATE = "JIT compilation during inference:"
MEMORY = (
    "Free memory on device (30.27/31.4 GiB) on startup. Desired GPU memory utilization is (0.92, 28.88 GiB). "
    "Actual usage is {0}, 1.59 GiB for peak activation, {1}and 0.09 GiB for CUDAGraph memory. Replace "
    "gpu_memory_utilization config with `--kv-cache-memory=12917635953`{2} to fit into requested memory. "
    "Current kv cache memory in use is {3}."
)
STARVED = (
    "ValueError: To serve at least one request with the model{0} max seq len (131072), (4.88 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (3.27 GiB). Based on the available memory, the estimated "
    "maximum model length is 81600. Try increasing `gpu_memory_utilization`"
)
STARVED_VALUES: dict[str, Value] = {
    "failure": "kv_starvation",
    "max_model_len": 131072,
    "needed_gib": 4.88,
    "available_gib": 3.27,
    "estimated_tokens": 81600,
}
USED: dict[str, Value] = {
    "free_gib": 30.27,
    "total_gib": 31.4,
    "utilization": 0.92,
    "wanted_gib": 28.88,
    "activation_gib": 1.59,
    "graphs_gib": 0.09,
}
STATS = "Avg prompt throughput: 5.7 tokens/s, Avg generation throughput: 16.7 tokens/s, Running: 1 reqs, "
RATES: dict[str, Value] = {"prompt_rate": 5.7, "generation_rate": 16.7, "running": 1}
ACCEPTED = "Accepted: 82 tokens, Drafted: 115 tokens, Per-position acceptance rate: 1.000, 0.870"
ACCEPTED_VALUES: dict[str, Value] = {"accepted": 82, "drafted": 115, "per_position": "1.000, 0.870"}
SHAPES = "Directly load the compiled graph(s) for {} from the cache, took 0.123 s"

CASES: list[tuple[Kind, str, dict[str, Value]]] = [
    (
        Kind.ENGINE_BANNER,
        "Initializing a V1 LLM engine (v0.32.0) with config: model=",
        {"generation": "1", "version": "0.32.0"},
    ),
    (
        Kind.ENGINE_BANNER,
        "Initializing a V0 LLM engine (v0.8.5) with config: x",
        {"generation": "0", "version": "0.8.5"},
    ),
    (Kind.VERSION, "vLLM server version 0.32.0, serving model /m", {"version": "0.32.0"}),
    (Kind.VERSION, "vLLM API server version 0.20.2rc1.dev2+x", {"version": "0.20.2rc1.dev2+x"}),
    (Kind.VERSION, " \u2584\u2584 \u2584\u2588 \u2588     \u2588  version 0.25.1", {"version": "0.25.1"}),
    (Kind.ARGUMENTS, "non-default args: {'port': 8000}", {"arguments": "{'port': 8000}"}),
    (
        Kind.UNKNOWN_VARIABLE,
        "Unknown vLLM environment variable detected: VLLM_PCIE_DMA_FP8",
        {"variable": "VLLM_PCIE_DMA_FP8"},
    ),
    (Kind.ARCHITECTURE, "Resolved architecture: MiMoMTPModel", {"architecture": "MiMoMTPModel"}),
    (Kind.MAX_MODEL_LEN, "Using max model len 33000", {"tokens": 33000}),
    (Kind.BATCHED_TOKENS, "Chunked prefill is enabled with max_num_batched_tokens=8192.", {"tokens": 8192}),
    (Kind.SCHEDULED_TOKENS, "max_num_scheduled_tokens is set to 2048 based on", {"tokens": 2048}),
    (Kind.ASYNC_SCHEDULING, "Asynchronous scheduling is disabled.", {"state": "disabled"}),
    (Kind.EAGER, "Enforce eager set, disabling torch.compile and CUDAGraphs.", {}),
    (Kind.RUNNER, "Using V2 Model Runner", {"runner": "V2"}),
    (Kind.RUNNER, "Model Runner V2 requires Triton; using the V1 model runner instead.", {"runner": "V1"}),
    (
        Kind.RUNNER,
        "Model Runner V2 does not yet support x; using the V1 model runner instead.",
        {"runner": "V1"},
    ),
    (
        Kind.WORKER_RANK,
        "world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://127.0.0.1:41463 backend=nccl",
        {"rank": 1},
    ),
    (
        Kind.ALL_REDUCE,
        "Using ['CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0' out of",
        {"backends": "'CUSTOM', 'PYNCCL'", "group": "tp:0"},
    ),
    (
        Kind.ALL_REDUCE,
        "PCIe custom allreduce enabled via VLLM_ENABLE_PCIE_ALLREDUCE=1 (x)",
        {"backends": "PCIe custom allreduce", "via": "VLLM_ENABLE_PCIE_ALLREDUCE=1"},
    ),
    (Kind.ALL_REDUCE, "Custom allreduce is disabled because it is", {"because": "it is"}),
    (
        Kind.MOE,
        "Using 'B12X' NvFp4 MoE backend out of potential backends: ['B12X'].",
        {"backend": "'B12X' NvFp4"},
    ),
    (
        Kind.MOE,
        "Using CPU Unquantized MoE backend out of potential backends: ['CPU'].",
        {"backend": "CPU Unquantized"},
    ),
    (Kind.MOE, "Using Foo backend for Quark MXFP8 (W8A8) MoE.", {"backend": "Foo", "scheme": "Quark MXFP8 (W8A8)"}),
    (
        Kind.ENCODER_ATTENTION,
        "Using AttentionBackendEnum.FLASH_ATTN for MMEncoderAttention.",
        {"backend": "FLASH_ATTN"},
    ),
    (
        Kind.ENCODER_ATTENTION,
        "Using backend AttentionBackendEnum.FLASH_ATTN for vit attention",
        {"backend": "FLASH_ATTN"},
    ),
    (Kind.ATTENTION, "Using FLASH_ATTN attention backend out of potential backends: x", {"backend": "FLASH_ATTN"}),
    (Kind.ATTENTION, "Using AttentionBackendEnum.B12X_MLA_SPARSE backend.", {"backend": "B12X_MLA_SPARSE"}),
    (Kind.ATTENTION, "Using FLASH_ATTN MLA prefill backend.", {"backend": "FLASH_ATTN MLA prefill"}),
    (Kind.ATTENTION, "Using Flash Attention backend on V1 engine.", {"backend": "Flash Attention"}),
    (Kind.LOAD_BEGIN, "Starting to load model /models/mimo...", {"model": "/models/mimo"}),
    (Kind.LOAD_BEGIN, "Loading model from scratch...", {}),
    (Kind.DRAFTER, "Loading drafter model...", {}),
    (
        Kind.DRAFTER,
        "Detected MTP model. Sharing target model lm_head weights with the draft model.",
        {"shared": "lm_head"},
    ),
    (Kind.DRAFTER, "Overriding draft model max model len from 65536 to 33000", {"tokens": 33000}),
    (Kind.WEIGHTS, "Loading weights took 19.01 seconds", {"seconds": 19.01}),
    (Kind.MODEL_BUILT, "Initializing model took 0.011038 seconds", {"seconds": 0.011038}),
    (Kind.MODEL_LOADED, "Model loading took 18.1900 GiB and 3.664486 seconds", {"gib": 18.19, "seconds": 3.664486}),
    (
        Kind.MODEL_LOADED,
        "Model loading took 18.19 GiB memory and 3.664486 seconds",
        {"gib": 18.19, "seconds": 3.664486},
    ),
    (Kind.CACHE_FOLDER, "[backbone] Using cache directory: /c/x for vLLM's torch.compile", {"folder": "/c/x"}),
    (Kind.CACHE_OFF, "vLLM's torch.compile cache is disabled.", {}),
    (Kind.COMPILE_BEGIN, "[backbone] Starting torch.compile", {}),
    (Kind.COMPILE_BEGIN, "Warming up model for the compilation...", {}),
    (Kind.COMPILE_BEGIN, "Dynamo bytecode transform time: 4.20 s", {"seconds": 4.2}),
    (Kind.CACHE_HIT, SHAPES.format("shape None"), {"shape": "shape None", "seconds": 0.123}),
    (Kind.CACHE_HIT, SHAPES.format("dynamic shape"), {"shape": "dynamic shape", "seconds": 0.123}),
    (Kind.CACHE_HIT, SHAPES.format("compile range (1, 9)"), {"shape": "compile range (1, 9)", "seconds": 0.123}),
    (Kind.CACHE_HIT, "Directly load AOT compilation from path /c/rank_0_0/model", {"path": "/c/rank_0_0/model"}),
    (Kind.CACHE_HIT, "fx graph cache hit for key fabc12", {"key": "fabc12"}),
    (Kind.CACHE_MISS, "fx graph cache miss for key fabc12", {"key": "fabc12"}),
    (Kind.CACHE_MISS, "Compiling a graph for general shape takes 5.00 s", {"shape": "general shape", "seconds": 5.0}),
    (
        Kind.CACHE_MISS,
        "Compiling a graph for compile range (1, 2048) takes 5.00 s",
        {"shape": "compile range (1, 2048)", "seconds": 5.0},
    ),
    (Kind.CACHE_MISS, "[backbone] saved AOT compiled function to /c/model", {"path": "/c/model"}),
    (Kind.CACHE_STORED, "Cache the graph of compile range (1, 9) for later use", {"shape": "compile range (1, 9)"}),
    (
        Kind.CACHE_LOAD_FAILED,
        "[backbone] Compiling model again due to a load failure from /c/model, reason: no attribute 'x'",
        {"path": "/c/model", "reason": "no attribute 'x'"},
    ),
    (Kind.COMPILED, "torch.compile takes 9.00 s in total", {"seconds": 9.0}),
    (Kind.COMPILED, "[backbone] torch.compile took 9.00 s in total", {"seconds": 9.0}),
    (
        Kind.COMPILED,
        "torch.compile and initial profiling/warmup run together took 9.00 s in total",
        {"together": "profiling/warmup", "seconds": 9.0},
    ),
    (Kind.PROFILED, "Initial profiling/warmup run took 0.35 s", {"seconds": 0.35}),
    (
        Kind.MEMORY,
        MEMORY.format("15.03 GiB for weight", "0.50 GiB for non-torch memory, ", "", "13156515840 bytes"),
        USED | {"weights_gib": 15.03, "what": "weight", "other_gib": 0.5, "kv_bytes": 13156515840},
    ),
    (
        Kind.MEMORY,
        MEMORY.format("15.03 GiB for consumed memory (weights + non-torch)", "", " (12.03 GiB)", "12.26 GiB"),
        USED | {"weights_gib": 15.03, "what": "consumed memory", "kv_gib": 12.26},
    ),
    (
        Kind.MEMORY_FIXED,
        "Initial free memory 93.7 GiB, reserved 20.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes",
        {"free_gib": 93.7, "kv_gib": 20.0},
    ),
    (
        Kind.MEMORY_FIXED,
        "Explicitly set (1.0/14.34) GiB for KV cache on node 0.",
        {"how": "Explicitly", "kv_gib": 1.0, "total_gib": 14.34, "node": 0},
    ),
    (
        Kind.MEMORY_FIXED,
        "Applying persisted startup plan (fingerprint ab12): kv_cache_memory_bytes=1073741824 (1.00 GiB), x",
        {"fingerprint": "ab12", "kv_bytes": 1073741824},
    ),
    (Kind.KV_MEMORY, "Available KV cache memory: 45.83 GiB", {"gib": 45.83}),
    (Kind.KV_MEMORY, "Available KV cache memory: -1.20 GiB", {"gib": -1.2}),
    (
        Kind.KV_SCALED,
        "Multiplying the GPU KV cache size by the dcp_world_size 4.",
        {"what": "dcp_world_size", "factor": 4},
    ),
    (
        Kind.KV_SCALED,
        "Multiplying the GPU KV cache size by the cp_world_size 8 (pcp_world_size 2 * dcp_world_size 4).",
        {"what": "cp_world_size", "factor": 8},
    ),
    (
        Kind.KV_OVERRIDDEN,
        "Overriding num_gpu_blocks=900 with num_gpu_blocks_override=512",
        {"before": 900, "blocks": 512},
    ),
    (
        Kind.KV_FITTED,
        "Auto-fit max_model_len: reduced from 131072 to 81600 to fit in available KV cache memory (3.27)",
        {"before": 131072, "tokens": 81600},
    ),
    (Kind.KV_FITTED, "Auto-fit max_model_len: full model context length 32768 fits", {"tokens": 32768}),
    (
        Kind.KV_TOKENS,
        KV,
        {"device": "GPU", "tokens": 894_492, "per_request_tokens": 131_072, "concurrency": 6.82},
    ),
    (Kind.KV_TOKENS, "CPU KV cache size: 2,097,152 tokens", {"device": "CPU", "tokens": 2_097_152}),
    (Kind.KV_TOKENS, "GPU + host KV cache size: 512 tokens", {"device": "GPU + host", "tokens": 512}),
    (
        Kind.CONCURRENCY,
        "Maximum concurrency for 33,000 tokens per request: 219.93x",
        {"per_request_tokens": 33_000, "concurrency": 219.93},
    ),
    (Kind.WARM_UP, "JIT kernel warmup starting.", {"state": "starting"}),
    (Kind.WARM_UP, "JIT kernel warmup finished in 3.50s.", {"state": "finished in 3.50s", "seconds": 3.5}),
    (
        Kind.WARM_UP,
        "Warmed up 3 B12X DCP collective signature(s).",
        {"count": 3, "what": "B12X DCP collective signature(s)"},
    ),
    (Kind.WARM_UP, "Multi-modal warmup completed in 12.594s", {"what": "Multi-modal", "seconds": 12.594}),
    (
        Kind.WARM_UP,
        "Skipping FlashInfer autotune because it is disabled.",
        {"state": "Skipping", "because": "it is disabled."},
    ),
    (
        Kind.GRAPH_MEMORY,
        "CUDA graph pool memory: 0.11 GiB (actual), 0.14 GiB (estimated), difference: 0.03 GiB (25.0%).",
        {"gib": 0.11, "estimated_gib": 0.14},
    ),
    (Kind.GRAPH_MEMORY, "Estimated MRV2 CUDA graph memory: 0.31 GiB total (x)", {"estimated_gib": 0.31}),
    (Kind.GRAPHS, "Graph capturing finished in 16 secs, took 0.17 GiB", {"seconds": 16.0, "gib": 0.17}),
    (Kind.GRAPHS, "Graph capturing finished in 16 secs, took -0.02 GiB", {"seconds": 16.0, "gib": -0.02}),
    (Kind.GRAPHS_SKIPPED, "Skipping CUDA graph capture. To turn on CUDA graph capture, x", {}),
    (
        Kind.ENGINE_INIT,
        "init engine (profile, create kv cache, warmup model) took 52.63 seconds",
        {"seconds": 52.63, "unit": "seconds"},
    ),
    (
        Kind.ENGINE_INIT,
        "init engine (profile, x) took 87.98 s (compilation: 11.95 s \u2014 encoder: 1 s)",
        {"seconds": 87.98, "unit": "s", "compile_seconds": 11.95},
    ),
    (Kind.JIT_ARMED, "Kernel JIT monitor activated; monitored x will use mode=warn.", {"mode": "warn"}),
    (Kind.JIT_ARMED, "Kernel JIT monitor activated \u2014 Triton JIT compilations will be logged as warnings.", {}),
    (
        Kind.LATE_JIT,
        f"Triton kernel {LATE} _topk_kernel. {SPIKE}",
        {"backend": "Triton", "event": "kernel JIT compilation", "kernel": "_topk_kernel"},
    ),
    (
        Kind.LATE_JIT,
        f"CuTeDSL {LATE} Prefill.kernel. {SPIKE}",
        {"backend": "CuTeDSL", "event": "JIT compilation", "kernel": "Prefill.kernel"},
    ),
    (
        Kind.LATE_JIT,
        f"Triton kernel {LATE} _k (constexprs={{N=4, D=(1, 2)}}; key=a). {SPIKE}",
        {
            "backend": "Triton",
            "event": "kernel JIT compilation",
            "kernel": "_k",
            "detail": "constexprs={N=4, D=(1, 2)}; key=a",
        },
    ),
    (
        Kind.LATE_JIT,
        f"Triton autotune/warmup candidate {LATE} _k (key=a).",
        {
            "backend": "Triton",
            "event": "autotune/warmup candidate JIT compilation",
            "kernel": "_k",
            "detail": "key=a",
        },
    ),
    (
        Kind.LATE_JIT,
        f"Triton kernel {LATE} _k. {SPIKE} repr='_k[num_warps=4](P: ()' signature={{'P': '*i64'}}",
        {
            "backend": "Triton",
            "event": "kernel JIT compilation",
            "kernel": "_k",
            "specialisation": "repr='_k[num_warps=4](P: ()' signature={'P': '*i64'}",
        },
    ),
    (
        Kind.KERNEL_COMPILE,
        (
            "[b12x cute.compile] miss reason=post-engine-start target=b12x.dense._Launch status=disk-cache-miss "
            "cache_key=6da6 attrs={} spec_hash=38a2 spec={}"
        ),
        {
            "library": "b12x",
            "outcome": "miss",
            "reason": "post-engine-start",
            "target": "b12x.dense._Launch",
            "status": "disk-cache-miss",
            "cache_key": "6da6",
            "spec_hash": "38a2",
            "spec": "{}",
        },
    ),
    (
        Kind.KERNEL_COMPILE,
        (
            "[b12x cute.compile] miss target=b12x.mla.PrefillKernel status=disk-cache-miss cache_key=6da6 "
            "attrs={'block_threads': 384, 'mode': 'auto', 'order': (1, 0)} spec_hash=38a2 spec={\"facts\":[]} env={}"
        ),
        {
            "library": "b12x",
            "outcome": "miss",
            "target": "b12x.mla.PrefillKernel",
            "status": "disk-cache-miss",
            "cache_key": "6da6",
            "attrs": "'block_threads': 384, 'mode': 'auto', 'order': (1, 0)",
            "spec_hash": "38a2",
            "spec": '{"facts":[]}',
        },
    ),
    (Kind.KERNEL_COMPILE, "[sparkinfer cute.compile] disk-hit", {"library": "sparkinfer", "outcome": "disk-hit"}),
    (
        Kind.KERNEL_COMPILE,
        "[b12x cute.compile] miss target=b12x.dense._Launch status=disk-cache-disabled cache_key=6da6 attrs={}",
        {
            "library": "b12x",
            "outcome": "miss",
            "target": "b12x.dense._Launch",
            "status": "disk-cache-disabled",
            "cache_key": "6da6",
        },
    ),
    (
        Kind.KERNEL_COMPILE,
        (
            "[b12x cute.compile] disk-hit-after-wait reason=post-engine-start target=b12x.dense._Launch "
            "status=disk-cache-hit-after-wait cache_key=6da6 attrs={'target': 'x'} key_inputs=()"
        ),
        {
            "library": "b12x",
            "outcome": "disk-hit",
            "reason": "post-engine-start",
            "target": "b12x.dense._Launch",
            "status": "disk-cache-hit-after-wait",
            "cache_key": "6da6",
            "attrs": "'target': 'x'",
        },
    ),
    (
        Kind.KERNEL_PROGRESS,
        "[b12x cute.compile] compile-start number=12 target=b12x.dense._Launch cache_key=6da6 kernel=dense version=1",
        {"library": "b12x", "stage": "start", "target": "b12x.dense._Launch", "cache_key": "6da6"},
    ),
    (
        Kind.KERNEL_PROGRESS,
        (
            "[b12x cute.compile] compile-done number=12 duration_s=0.123 total_compile_s=4.500 "
            "target=b12x.dense._Launch cache_key=6da6"
        ),
        {"library": "b12x", "stage": "done", "seconds": 0.123, "target": "b12x.dense._Launch", "cache_key": "6da6"},
    ),
    (
        Kind.KERNEL_PROGRESS,
        (
            "[b12x cute.compile] compile-failed number=12 duration_s=0.123 total_compile_s=4.500 "
            "target=b12x.dense._Launch cache_key=6da6 error=RuntimeError: CUDA error: out of memory"
        ),
        {"library": "b12x", "stage": "failed", "seconds": 0.123, "target": "b12x.dense._Launch", "cache_key": "6da6"},
    ),
    (Kind.AUTOTUNED, "Triton autotuning for function _k,", {"kernel": "_k"}),
    (Kind.HTTP_BEGIN, "Starting vLLM API server 0 on http://0.0.0.0:80", {"address": "http://0.0.0.0:80"}),
    (Kind.HTTP_BEGIN, "Starting vLLM server on http://0.0.0.0:80", {"address": "http://0.0.0.0:80"}),
    (Kind.HTTP_READY, "Application startup complete.", {}),
    (
        Kind.STATS,
        f"Engine 001: {STATS}Waiting: 0 reqs, CPU KV cache usage: 0.5%, Prefix cache hit rate: 1.0%",
        RATES | {"engine": 1, "waiting": 0, "kv_percent": 0.5, "prefix_hit_percent": 1.0},
    ),
    (
        Kind.STATS,
        f"2 Engines Aggregated: {STATS}Waiting: 3 reqs, Preemptions: 4, GPU KV cache usage: 9.0%",
        RATES | {"engines": 2, "waiting": 3, "preemptions": 4, "kv_percent": 9.0},
    ),
    (
        Kind.STATS,
        f"{STATS}Swapped: 2 reqs, Pending: 3 reqs, GPU KV cache usage: 9.0%, CPU KV cache usage: 0.0%.",
        RATES | {"swapped": 2, "waiting": 3, "kv_percent": 9.0},
    ),
    (
        Kind.SPEC_DECODING,
        f"SpecDecoding metrics: Draft acceptance rate: 71.3%, Mean acceptance length: 1.71, {ACCEPTED}",
        ACCEPTED_VALUES,
    ),
    (
        Kind.SPEC_DECODING,
        (
            f"SpecDecoding metrics: Mean acceptance length: 4.57, Accepted throughput: 1.59 "
            f"tokens/s, Drafted throughput: 2.23 tokens/s, {ACCEPTED}, Avg Draft acceptance rate: 71.3%"
        ),
        ACCEPTED_VALUES,
    ),
    (Kind.SHUTDOWN, "[shutdown] API server: shutdown triggered", {}),
    (Kind.SHUTDOWN, "Shutting down FastAPI HTTP server.", {}),
    (Kind.ERROR, STARVED.format("'s"), STARVED_VALUES),
    (Kind.ERROR, STARVED.format("s's"), STARVED_VALUES),
    (Kind.ERROR, "ValueError: No available memory for the cache blocks. Try", {"failure": "kv_starvation"}),
    (
        Kind.ERROR,
        (
            "ValueError: Free memory on device cuda:0 (10.5/31.4 GiB) on startup is less than desired GPU memory "
            "utilization (0.92, 28.88 GiB). Decrease"
        ),
        {
            "failure": "free_memory_below_target",
            "free_gib": 10.5,
            "total_gib": 31.4,
            "utilization": 0.92,
            "wanted_gib": 28.88,
        },
    ),
    (Kind.ERROR, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", {"failure": "oom"}),
    (Kind.ERROR, "RuntimeError: CUDA error: out of memory", {"failure": "oom"}),
    (
        Kind.ERROR,
        "ModuleNotFoundError: No module named 'exllamav3_ext'",
        {"failure": "missing_extension", "module": "exllamav3_ext"},
    ),
    (
        Kind.ERROR,
        "ImportError: /x/_C.abi3.so: undefined symbol: _ZN3c10",
        {"failure": "missing_extension", "module": "_ZN3c10"},
    ),
    (
        Kind.ERROR,
        "ImportError: libcudart.so.13: cannot open shared object file: No such file",
        {"failure": "missing_extension", "module": "libcudart.so.13"},
    ),
    (
        Kind.ERROR,
        "AttributeError: '_OpNamespace' '_C' object has no attribute 'x'",
        {"failure": "missing_extension", "module": "_C"},
    ),
    (
        Kind.ERROR,
        "RuntimeError: start (0) + length (160) exceeds dimension size (64).",
        {"failure": "weight_shape"},
    ),
    (Kind.ERROR, "RuntimeError: size mismatch for x.weight: copying", {"failure": "weight_shape"}),
    (Kind.ERROR, "AssertionError: Attempted to load weight (torch.Size([1]))", {"failure": "weight_shape"}),
    (
        Kind.ERROR,
        "RuntimeError: The size of tensor a (3) must match the size of tensor b (4)",
        {"failure": "weight_shape"},
    ),
    (Kind.ERROR, "NotImplementedError: x", {"failure": "unsupported_config"}),
    (
        Kind.ERROR,
        "AssertionError: Synthetic acceptance not supported with CPU sampling",
        {"failure": "unsupported_config"},
    ),
    (Kind.ERROR, "ValueError: Model Foo does not support bar", {"failure": "unsupported_config"}),
    (Kind.ERROR, "RuntimeError: Unsupported x", {"failure": "unsupported_config"}),
    (
        Kind.ERROR,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        {"failure": "unsupported_config"},
    ),
    (
        Kind.ERROR,
        "vllm: error: unrecognized arguments: --foo",
        {"failure": "unsupported_config", "fatal": "server", "what": "unrecognized arguments: --foo"},
    ),
    (Kind.ERROR, "EngineCore failed to start.", {"fatal": "engine"}),
    (Kind.ERROR, "EngineCore encountered a fatal error.", {"fatal": "engine"}),
    (Kind.ERROR, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", {"fatal": "engine"}),
    (Kind.ERROR, "RuntimeError: Engine core initialization failed. See root", {"fatal": "engine"}),
    (Kind.ERROR, "Engine core proc EngineCore_DP0 died unexpectedly", {"fatal": "engine", "who": "EngineCore_DP0"}),
    (Kind.ERROR, "WorkerProc failed to start.", {"fatal": "worker"}),
    (Kind.ERROR, "WorkerProc hit an exception.", {"fatal": "worker"}),
    (Kind.ERROR, "Exception: WorkerProc initialization failed due to", {"fatal": "worker"}),
    (
        Kind.ERROR,
        "Worker proc VllmWorker-0 died unexpectedly (exit code: 0)",
        {"fatal": "worker", "who": "VllmWorker-0", "how": "exit code: 0"},
    ),
    (
        Kind.ERROR,
        "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.",
        {"fatal": "worker", "who": "VllmWorker-1", "how": "exit code: -9"},
    ),
    (Kind.ERROR, "Worker proc VllmWorker-0 died unexpectedly, ", {"fatal": "worker", "who": "VllmWorker-0"}),
    (
        Kind.ERROR,
        "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:41463",
        {"exception": "RuntimeError", "lost": "peer"},
    ),
    (
        Kind.ERROR,
        "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
        {"exception": "torch.distributed.DistBackendError", "lost": "peer"},
    ),
    (Kind.ERROR, "BrokenPipeError: [Errno 32] Broken pipe", {"exception": "BrokenPipeError", "lost": "peer"}),
    (Kind.ERROR, "Traceback (most recent call last):", {}),
    (Kind.ERROR, "RuntimeError: Worker failed", {"exception": "RuntimeError"}),
    (Kind.ERROR, "AssertionError", {"exception": "AssertionError"}),
    (Kind.ERROR, "foo.BarException: x", {"exception": "foo.BarException"}),
]


@pytest.mark.parametrize(
    ("kind", "line", "values"), CASES, ids=[f"{n}-{line[:32]}" for n, (_, line, _) in enumerate(CASES)]
)
def test_a_line_says(kind: Kind, line: str, values: dict[str, Value]) -> None:
    stamp = "ERROR 11-29 16:27:06 [x.py:1] " if kind is Kind.ERROR else STAMP
    for log in (line, f"{stamp}{line}", f"(EngineCore pid=7) {stamp}{line}"):
        event = only(log)
        assert (event.kind, event.values, event.text, event.line) == (kind, values, line, 1)


def test_every_form_has_a_case() -> None:
    unseen = [f for f in FORMS if not any(f.word in line.encode() and f.pattern.search(line) for _, line, _ in CASES)]
    assert [f"{f.kind} {f.word!r}" for f in unseen] == []


def test_every_word_is_in_every_line_of_its_form() -> None:
    for form in FORMS:
        assert form.word.isascii()
        assert not re.search(rb'["\\\r\n]', form.word)
        for _, line, _ in CASES:
            if match := form.pattern.search(line):
                assert form.word.decode() in line, (form.word, match)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Loading drafter modes",
        "Using MoEPrepareAndFinalizeNoDPEPModular",
        "Using LBHNC KV cache layout for FOO backend.",
        "Using fp8 SSM state storage for the CPU accelerated GDN backend.",
        "Current kv cache memory in use is 12.26 GiB.",
        "Encoder Graph capturing finished in 3 secs, took 0.10 GiB (4 graphs)",
        'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        "no error: everything is fine",
        "Profiling CUDA graph memory: PIECEWISE=35 (largest=256)",
        "[b12x cute.compile] python_stack (most recent call last):",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert parsed(line + "\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore pid=7) {level} 11-29 16:27:06 [core.py:1] something new",
        '{{"asctime": "x", "levelname": "{level}", "name": "vllm.a", "message": "something new"}}',
        "Aug 11 20:31:07 host-1 python3[28]: (EngineCore pid=7) {level} 11-29 16:27:06 [core.py:1] something new",
        "2026-11-29T16:27:06.1Z {level} 11-29 16:27:06 [core.py:1] something new",
        "{level}:    something new",
    ],
    ids=["plain", "JSON", "journald", "docker", "uvicorn"],
)
@pytest.mark.parametrize(("level", "errors"), [("INFO", 0), ("WARNING", 0), ("ERROR", 1), ("CRITICAL", 1)])
def test_a_line_of_an_error_level_is_an_error_whatever_it_says(line: str, level: str, errors: int) -> None:
    found = parsed(line.format(level=level) + "\n")
    assert [(event.kind, event.text, event.level) for event in found] == [(Kind.ERROR, "something new", level)] * errors


def test_a_known_line_of_an_error_level_is_what_it_says() -> None:
    assert only(f"ERROR 11-29 16:27:06 [x.py:1] {KV}").kind is Kind.KV_TOKENS


def test_an_exception_that_a_warning_quotes_is_no_error() -> None:
    assert parsed("WARNING 11-29 16:27:06 [x.py:1] ModuleNotFoundError: No module named 'x'\n") == []


@pytest.mark.parametrize("number", ["", "1.2.3", "nan", "-", ".5", "9" * 40])
def test_a_number_that_is_none_is_not_read_as_one(number: str) -> None:
    assert parsed(f"Available KV cache memory: {number} GiB\nGPU KV cache size: , tokens\n") == []


def test_more_digits_than_a_number_has_stay_text() -> None:
    assert (
        only(f"SpecDecoding metrics: Accepted: {'9' * 5000} tokens, Drafted: 1 tokens").values["accepted"] == "9" * 5000
    )
