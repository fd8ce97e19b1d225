"""vLLM's log as typed events, driven by the forms of its lines and never by its version number.

Forms and their history: notes/vllm.md, section 1 of the project's background material; every
pattern here was seen in a real log. Where a log says nothing, there is no event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import BinaryIO


class Kind(StrEnum):
    """What a line says."""

    ENGINE_BANNER = "engine banner"
    LOAD_BEGIN = "load begins"
    WEIGHTS = "weights loaded"
    COMPILE_BEGIN = "compile begins"
    CACHE_HIT = "compile cache hit"
    CACHE_MISS = "compile cache miss"
    CACHE_LOAD_FAILED = "compile cache load failed"
    KV_TOKENS = "kv tokens"
    CONCURRENCY = "maximum concurrency"
    GRAPHS = "graphs captured"
    ENGINE_INIT = "engine initialised"
    HTTP_READY = "http ready"
    JIT_ARMED = "jit monitor armed"
    LATE_JIT = "late jit"
    KERNEL_COMPILE = "kernel compile"
    """A line of b12x's or sparkinfer's own compiler: `outcome` is `miss` or `disk-hit`."""
    RUNNER = "model runner"
    ATTENTION = "attention backend"
    SCHEDULED_TOKENS = "scheduled tokens changed"
    ERROR = "error"


@dataclass(frozen=True)
class Event:
    """One line that says something."""

    kind: Kind
    line: int
    """From 1."""
    end_offset: int
    """Byte offset of the line's end: looked up in server.log.times.jsonl, it gives the time."""
    process: str
    """As the line's prefix names it, '' without one."""
    text: str
    values: dict[str, str] = field(default_factory=dict)


# No unbounded repeat may begin at more than one place of a line: a server under test can print lines
# that take time with the square of their length.
PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (Kind.ENGINE_BANNER, re.compile(r"Initializing a V\d LLM engine \(v(?P<version>[^)]+)\)")),
    (Kind.LOAD_BEGIN, re.compile(r"Starting to load model ")),
    (Kind.WEIGHTS, re.compile(r"Loading weights took (?P<seconds>[\d.]+) seconds")),
    (
        Kind.COMPILE_BEGIN,
        re.compile(r"Starting torch\.compile|Warming up model for the compilation|Dynamo bytecode transform"),
    ),
    (
        Kind.CACHE_HIT,
        re.compile(r"Directly load (?:the compiled graph|AOT compilation)|fx graph cache hit for key (?P<key>\w+)"),
    ),
    (Kind.CACHE_LOAD_FAILED, re.compile(r"Compiling model again due to a load failure")),
    (
        Kind.CACHE_MISS,
        re.compile(r"Compiling a graph for |saved AOT compiled function|fx graph cache miss for key (?P<key>\w+)"),
    ),
    (
        Kind.KV_TOKENS,
        re.compile(
            r"(?:GPU|CPU|XPU|GPU \+ host) KV cache size: (?P<tokens>[\d,]+) tokens"
            r"(?:, Maximum concurrency for [\d,]+ tokens per request: (?P<concurrency>[\d.]+)x)?"
        ),
    ),
    # A line of its own up to 0.27, the end of the line above since 0.28.
    (Kind.CONCURRENCY, re.compile(r"Maximum concurrency for [\d,]+ tokens per request: (?P<concurrency>[\d.]+)x")),
    (Kind.GRAPHS, re.compile(r"Graph capturing finished in (?P<seconds>\d+) secs, took (?P<gib>-?[\d.]+) GiB")),
    (Kind.ENGINE_INIT, re.compile(r"init engine \(.{0,200}?\) took (?P<seconds>[\d.]+) s")),
    (Kind.HTTP_READY, re.compile(r"Application startup complete\.")),
    (Kind.JIT_ARMED, re.compile(r"Kernel JIT monitor activated")),
    (
        Kind.LATE_JIT,
        re.compile(
            r"\b(?P<backend>\w+) (?:kernel |autotune/warmup candidate )?JIT compilation during inference: "
            r"(?P<kernel>[^\s(]+?)(?: \((?P<detail>.*)\))?\.(?: This causes a latency spike.*)?$"
        ),
    ),
    (
        Kind.KERNEL_COMPILE,
        re.compile(
            r"\[(?P<library>\w{1,40}) cute\.compile\] (?P<outcome>[\w-]{1,40})(?: reason=(?P<reason>\S{1,100}))?"
            r"(?: target=(?P<target>\S{1,500}))?"
        ),
    ),
    (Kind.RUNNER, re.compile(r"Using V2 Model Runner|Model Runner V2 .{0,200}; using the V1 model runner instead")),
    (
        Kind.ATTENTION,
        re.compile(r"Using (?:AttentionBackendEnum\.)?(?P<backend>[\w ]{1,60}?)(?<! MoE) (?:attention )?backend\b"),
    ),
    (Kind.SCHEDULED_TOKENS, re.compile(r"max_num_scheduled_tokens is set to (?P<tokens>\d+)")),
    (
        Kind.ERROR,
        re.compile(
            r"^[\w.]*(?:Error|Exception): |Traceback \(most recent call last\)|EngineCore (?:failed|encountered)"
        ),
    ),
)

_ANSI = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX = re.compile(r"^\((?P<process>[A-Za-z][\w.\- =]*?) pid=\d+\)\s+")
_LEVEL = re.compile(r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ")


def events(log: BinaryIO) -> Iterator[Event]:
    r"""Every event of a log, in the order of its lines; memory does not grow with the log.

    Progress bars end in `\r`: the last state of such a line is the one that counts.
    """
    offset = 0
    for number, raw in enumerate(log, 1):
        offset += len(raw)
        line = _ANSI.sub(b"", raw).rstrip(b"\r\n").rpartition(b"\r")[2].decode("utf-8", "backslashreplace")
        process = ""
        if prefix := _PREFIX.match(line):
            process = prefix["process"]
            line = line[prefix.end() :]
        level = ""
        if found := _LEVEL.match(line):
            level = found["level"]
            line = line[found.end() :]
        for kind, pattern in PATTERNS:
            if match := pattern.search(line):
                values = {k: v for k, v in match.groupdict().items() if v is not None}
                yield Event(kind, number, offset, process, line, values)
                break
        else:
            if level in ("ERROR", "CRITICAL"):
                yield Event(Kind.ERROR, number, offset, process, line)


def kv_tokens(event: Event) -> int:
    """Tokens of a KV_TOKENS event."""
    return int(event.values["tokens"].replace(",", ""))
