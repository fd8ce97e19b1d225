"""What a line of a log says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.observe.log.process import Process, parse_process

Value = str | int | float


class Kind(StrEnum):
    """What a line says."""

    FIRST_RECORD = "first log record"
    """The first line that vLLM's own logger wrote; once per log, beside whatever else that line says."""

    VERSION = "server version"
    ARGUMENTS = "non-default arguments"
    UNKNOWN_VARIABLE = "unknown variable"
    """A variable of the environment that begins like vLLM's and is in no list of its."""
    ARCHITECTURE = "architecture"
    MAX_MODEL_LEN = "maximum model length"
    BATCHED_TOKENS = "batched tokens"
    SCHEDULED_TOKENS = "scheduled tokens changed"
    ASYNC_SCHEDULING = "asynchronous scheduling"
    EAGER = "eager enforced"
    ENGINE_BANNER = "engine banner"
    RUNNER = "model runner"
    ATTENTION = "attention backend"
    ENCODER_ATTENTION = "encoder attention backend"
    MOE = "MoE backend"
    ALL_REDUCE = "all-reduce backend"
    WORKER_RANK = "worker's rank"
    """Told by each worker of several, before its prefix names its place."""

    LOAD_BEGIN = "load begins"
    DRAFTER = "drafter"
    WEIGHTS = "weights loaded"
    MODEL_BUILT = "model constructed"
    MODEL_LOADED = "model loaded"

    COMPILE_BEGIN = "compile begins"
    CACHE_FOLDER = "compile cache folder"
    CACHE_OFF = "compile cache disabled"
    CACHE_HIT = "compile cache hit"
    CACHE_MISS = "compile cache miss"
    CACHE_STORED = "compile cache stored"
    CACHE_LOAD_FAILED = "compile cache load failed"
    COMPILED = "compiled"
    PROFILED = "profiling run"

    MEMORY = "memory summary"
    MEMORY_FIXED = "KV memory fixed"
    KV_MEMORY = "available KV memory"
    KV_SCALED = "kv tokens multiplied"
    KV_OVERRIDDEN = "kv blocks overridden"
    KV_FITTED = "maximum length fitted"
    KV_TOKENS = "kv tokens"
    CONCURRENCY = "maximum concurrency"

    WARM_UP = "warm-up"
    GRAPH_MEMORY = "graph memory"
    GRAPHS = "graphs captured"
    GRAPHS_SKIPPED = "graphs skipped"
    ENGINE_INIT = "engine initialised"

    JIT_ARMED = "jit monitor armed"
    LATE_JIT = "late jit"
    KERNEL_COMPILE = "kernel compile"
    """A line of b12x's or sparkinfer's own compiler: `outcome` is `miss` or `disk-hit`."""
    KERNEL_PROGRESS = "kernel compile progress"
    """How far such a compiler is, where it was asked to print that: `stage` is `start`, `done` or `failed`. After
    readiness the same compilation has a line of its miss too."""
    AUTOTUNED = "autotuned"

    HTTP_BEGIN = "http starts"
    HTTP_READY = "http ready"
    STATS = "engine statistics"
    SPEC_DECODING = "speculative decoding"
    SHUTDOWN = "shutdown begins"

    ERROR = "error"
    """`failure` names a known class of it; `fatal` says which process it ends."""


@dataclass(frozen=True)
class Event:
    """One thing that one line says."""

    kind: Kind
    line: int
    """From 1; lines end in a newline, whatever carriage returns they hold."""
    end_offset: int
    """Byte offset of the text's end: looked up in server.log.times.jsonl, it gives the time."""
    process: str
    """As the line's prefix names it; '' without one, and where two writers' prefixes ran into each other."""
    text: str
    """The message without prefix, colour and time, cut to `TEXT_CHARACTERS`."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """Numbers as numbers: seconds, GiB, tokens and percent, as the group's name says."""
    offset: int = 0
    """Byte offset of the text's begin, after the line end or carriage return before it."""
    level: str = ""
    pid: int | None = None
    stamp: str = ""
    """The line's own time, as written; whole seconds and no year in most versions."""
    source: str = ""
    """`file:line` or logger name, as written."""

    @property
    def speaker(self) -> Process:
        """The process with its ranks."""
        return parse_process(self.process)


TEXT_CHARACTERS = 16_384
