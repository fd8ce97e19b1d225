"""Lines of memory, KV cache, warm-up and graphs, up to the end of the engine's start."""

from __future__ import annotations

from harness.observe.log.event import Kind
from harness.observe.log.forms.form import DECIMAL, NUMBER, Form, form

FORMS: tuple[Form, ...] = (
    # --- memory and KV cache
    form(
        Kind.MEMORY,
        "Actual usage is ",
        rf"Free memory on device \((?P<free_gib>{DECIMAL})/(?P<total_gib>{DECIMAL}) GiB\) on startup\. "
        rf"Desired GPU memory utilization is \((?P<utilization>{DECIMAL}), (?P<wanted_gib>{DECIMAL}) GiB\)\. "
        rf"Actual usage is (?P<weights_gib>{DECIMAL}) GiB for (?P<what>weight|consumed memory)[^,]{{0,40}}, "
        rf"(?P<activation_gib>{DECIMAL}) GiB for peak activation, "
        rf"(?:(?P<other_gib>{DECIMAL}) GiB for non-torch memory, )?"
        rf"and (?P<graphs_gib>{DECIMAL}) GiB for CUDAGraph memory\."
        rf"(?:.{{0,400}}?Current kv cache memory in use is (?:(?P<kv_gib>{DECIMAL}) GiB|(?P<kv_bytes>\d+) bytes))?",
    ),
    form(
        Kind.MEMORY_FIXED,
        "memory for KV Cache as specified",
        rf"Initial free memory (?P<free_gib>{DECIMAL}) GiB, "
        rf"reserved (?P<kv_gib>{DECIMAL}) GiB memory for KV Cache as specified",
    ),
    form(
        Kind.MEMORY_FIXED,
        " set (",
        rf"(?P<how>Explicitly|Auto) set \((?P<kv_gib>{DECIMAL})/(?P<total_gib>{DECIMAL})\) GiB for KV cache "
        rf"on node (?P<node>\d+)",
        trigger="or KV ",
    ),
    form(
        Kind.MEMORY_FIXED,
        "persisted startup plan",
        r"Applying persisted startup plan \(fingerprint (?P<fingerprint>\S{1,100})\): "
        r"kv_cache_memory_bytes=(?P<kv_bytes>\d+)",
    ),
    form(Kind.KV_MEMORY, "Available KV cache memory: ", rf"Available KV cache memory: (?P<gib>{DECIMAL}) GiB"),
    form(
        Kind.KV_SCALED,
        "KV cache size by the ",
        r"Multiplying the GPU KV cache size by the (?P<what>\w+) (?P<factor>\d+)",
    ),
    form(
        Kind.KV_OVERRIDDEN,
        "Overriding num_gpu_blocks=",
        r"Overriding num_gpu_blocks=(?P<before>\d+) with num_gpu_blocks_override=(?P<blocks>\d+)",
    ),
    form(
        Kind.KV_FITTED,
        "Auto-fit max_model_len: ",
        r"Auto-fit max_model_len: (?:reduced from (?P<before>\d+) to |full model context length )(?P<tokens>\d+)",
    ),
    form(
        Kind.KV_TOKENS,
        "KV cache size: ",
        rf"(?P<device>GPU \+ host|GPU|CPU|XPU) KV cache size: (?P<tokens>{NUMBER}) tokens"
        rf"(?:, Maximum concurrency for (?P<per_request_tokens>{NUMBER}) tokens per request: "
        rf"(?P<concurrency>{DECIMAL})x)?",
    ),
    # A line of its own up to 0.27, the end of the line above since 0.28.
    form(
        Kind.CONCURRENCY,
        "Maximum concurrency for ",
        rf"Maximum concurrency for (?P<per_request_tokens>{NUMBER}) tokens per request: (?P<concurrency>{DECIMAL})x",
    ),
    # --- warm-up, graphs, end of the engine's start
    form(
        Kind.WARM_UP,
        "JIT kernel warmup ",
        rf"JIT kernel warmup (?P<state>starting|finished in (?P<seconds>{DECIMAL})s|failed after {DECIMAL}s)\.",
    ),
    form(Kind.WARM_UP, "Warmed up ", r"Warmed up (?P<count>\d+) (?P<what>.{1,120}?)\.?$"),
    form(
        Kind.WARM_UP,
        "Skipping FlashInfer autotune",
        r"(?P<state>Skipping) FlashInfer autotune because (?P<because>.{1,200})",
    ),
    form(Kind.WARM_UP, "armup completed in ", rf"(?P<what>[\w -]{{1,40}}) warmup completed in (?P<seconds>{DECIMAL})s"),
    form(
        Kind.GRAPH_MEMORY,
        "CUDA graph pool memory: ",
        rf"CUDA graph pool memory: (?P<gib>{DECIMAL}) GiB \(actual\), (?P<estimated_gib>{DECIMAL}) GiB \(estimated\)",
    ),
    form(
        Kind.GRAPH_MEMORY,
        "CUDA graph memory: ",
        rf"Estimated (?:MRV\d )?CUDA graph memory: (?P<estimated_gib>{DECIMAL}) GiB total",
    ),
    form(
        Kind.GRAPHS,
        "Graph capturing finished in ",
        rf"(?<!Encoder )Graph capturing finished in (?P<seconds>\d+) secs?, took (?P<gib>{DECIMAL}) GiB",
    ),
    form(Kind.GRAPHS_SKIPPED, "Skipping CUDA graph capture", r"Skipping CUDA graph capture"),
    # The unit was `seconds` up to 0.19 and is `s` since 0.20, where the meaning of the KV size changed too.
    form(
        Kind.ENGINE_INIT,
        "init engine (",
        rf"init engine \(.{{0,200}}?\) took (?P<seconds>{DECIMAL}) (?P<unit>seconds|s)\b"
        rf"(?: \(compilation: (?P<compile_seconds>{DECIMAL}) s)?",
        trigger=" took ",
    ),
)
