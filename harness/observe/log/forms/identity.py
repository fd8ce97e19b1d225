"""Lines in which the server says what it is and what it chose."""

from __future__ import annotations

from harness.observe.log.event import Kind
from harness.observe.log.forms.form import NUMBER, Form, form

FORMS: tuple[Form, ...] = (
    # --- identity and configuration
    form(
        Kind.ENGINE_BANNER, " LLM engine (v", r"Initializing a V(?P<generation>\d) LLM engine \(v(?P<version>[^)]+)\)"
    ),
    form(Kind.VERSION, "server version ", r"vLLM (?:API )?server version (?P<version>[^\s,]+)"),
    form(Kind.VERSION, "  version ", r"\u2588  version (?P<version>\S+)$"),
    form(Kind.ARGUMENTS, "non-default args: ", r"non-default args: (?P<arguments>.+)"),
    form(
        Kind.UNKNOWN_VARIABLE,
        "Unknown vLLM environment variable",
        r"Unknown vLLM environment variable detected: (?P<variable>\w{1,200})",
    ),
    form(Kind.ARCHITECTURE, "Resolved architecture: ", r"Resolved architecture: (?P<architecture>\w+)"),
    form(Kind.MAX_MODEL_LEN, "Using max model len ", rf"Using max model len (?P<tokens>{NUMBER})"),
    form(
        Kind.BATCHED_TOKENS,
        "max_num_batched_tokens=",
        rf"Chunked prefill is enabled with max_num_batched_tokens=(?P<tokens>{NUMBER})",
    ),
    form(
        Kind.SCHEDULED_TOKENS,
        "max_num_scheduled_tokens is set to",
        rf"max_num_scheduled_tokens is set to (?P<tokens>{NUMBER})",
    ),
    form(
        Kind.ASYNC_SCHEDULING,
        "Asynchronous scheduling is ",
        r"Asynchronous scheduling is (?P<state>enabled|disabled)",
    ),
    form(Kind.EAGER, "Enforce eager set", r"Enforce eager set"),
    form(Kind.RUNNER, "Using V2 Model Runner", r"Using V2 Model Runner", runner="V2"),
    form(
        Kind.RUNNER,
        "using the V1 model runner",
        r"Model Runner V2 .{0,200}; using the V1 model runner instead",
        runner="V1",
    ),
    form(
        Kind.WORKER_RANK,
        " local_rank=",
        r"world_size=\d{1,9} rank=(?P<rank>\d{1,9}) local_rank=\d{1,9} distributed_init_method=",
    ),
    # --- backends
    form(
        Kind.ALL_REDUCE,
        " all-reduce backends",
        r"Using \[(?P<backends>[^\]]{0,500})\] all-reduce backends .{0,60}for group '(?P<group>[^']{1,100})'",
        trigger="Using ",
    ),
    form(
        Kind.ALL_REDUCE,
        "custom allreduce enabled",
        r"(?P<backends>\w{1,20} custom allreduce) enabled(?: via (?P<via>\S+))?",
    ),
    form(Kind.ALL_REDUCE, "ustom allreduce is disabled", r"Custom allreduce is disabled because (?P<because>.{1,300})"),
    form(Kind.MOE, " MoE backend", r"Using (?P<backend>['\w][\w' ()-]{0,60}?) MoE backend\b", trigger="Using "),
    form(
        Kind.MOE,
        " MoE.",
        r"Using (?P<backend>[\w' -]{1,60}?) backend for (?P<scheme>[\w ()]{1,60}) MoE\.",
        trigger="Using ",
    ),
    form(
        Kind.ENCODER_ATTENTION,
        " for MMEncoderAttention",
        r"Using (?:AttentionBackendEnum\.)?(?P<backend>\w+) for MMEncoderAttention",
        trigger="Using ",
    ),
    form(
        Kind.ENCODER_ATTENTION,
        " for vit attention",
        r"Using backend (?:AttentionBackendEnum\.)?(?P<backend>\w+) for vit attention",
        trigger="Using ",
    ),
    form(
        Kind.ATTENTION,
        " backend",
        r"Using (?!.{0,60}(?:KV cache|state storage))(?:AttentionBackendEnum\.)?"
        r"(?P<backend>[\w ]{1,60}?) (?:attention )?backend\b",
        trigger="Using ",
    ),
)
