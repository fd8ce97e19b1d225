"""What a log says as a whole: the names of facts, and their records. What no line says is None."""

from __future__ import annotations

from dataclasses import dataclass

from harness.observe.log.banner import SETTINGS
from harness.observe.log.event import Event, Value

COLUMNS = (
    "file", "source_url", "vllm_version", "ready", "failure_class", "available_kv_gib", "kv_cache_tokens",
    "max_concurrency_x", "model_load_gib", "model_load_s", "engine_init_s", "compile_s", "graph_capture_s",
    "graph_capture_gib", "jit_monitor_armed", "late_jit_warnings", "late_jit_kernels", "b12x_misses", "b12x_hits",
    "spec_lines", "spec_accepted_sum", "spec_drafted_sum", "notes",
)  # fmt: skip
"""Of the log collection's INDEX.csv; `file`, `source_url` and `notes` are about a file and not in it."""

RESOLVED = (
    "runner", "attention", "encoder_attention", "moe", "all_reduce", "max_num_batched_tokens",
    "max_num_scheduled_tokens", "async_scheduling", "compile_cache", "kv_meaning", "kv_per_request_tokens",
    "kv_blocks_override", *SETTINGS,
)  # fmt: skip
"""What the engine chose, as far as it printed it: part of what was measured (DESIGN 5)."""

POOL, CONCURRENCY = "pool of blocks", "maximum concurrency x maximum length"
"""What the KV size counts: up to 0.19 the first, since 0.20 the second (notes/vllm.md, section 0)."""

MOST_NAMES = 4096


@dataclass(frozen=True)
class Fact:
    """A value and where it stands."""

    value: Value
    line: int | None = None
    """None where it follows from the log as a whole, as a count does."""
    process: str = ""


@dataclass(frozen=True)
class Failed:
    """What a start failed of, or an engine died of."""

    failure: str
    line: int
    process: str
    text: str
    details: dict[str, Value]
    """Figures that the line names, such as the memory needed and available, in GiB."""


@dataclass(frozen=True)
class Facts:
    """Everything; see `COLUMNS` and `RESOLVED` for the names."""

    is_log: bool
    """False where no line is one of vLLM's: then nothing below is known, and counts are not 0."""
    columns: dict[str, Fact | None]
    resolved: dict[str, Fact | None]
    failed: Failed | None
    errors_after_ready: Fact | None


def fact(event: Event | None, name: str) -> Fact | None:
    """A line's value, or None where there is no such line or it does not name it."""
    if event is None or name not in event.values:
        return None
    return Fact(event.values[name], event.line, event.process)


def summed(events: list[Event], name: str) -> Fact | None:
    """Of one line its value; of several engines their sum."""
    if len(events) < 2:
        return fact(events[0], name) if events else None
    total = sum(float(e.values[name]) for e in events)
    return Fact(int(total) if name == "tokens" else round(total, 2), events[-1].line)


def line_of(event: Event | None) -> int | None:
    """A line's number."""
    return event.line if event else None
