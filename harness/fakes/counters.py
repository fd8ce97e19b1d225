"""The server's counters, and /metrics in the text format that prometheus_client gives vLLM."""

from __future__ import annotations

import bisect
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from harness.fakes.settings import BLOCK_SIZE, Settings

SECONDS_BUCKETS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")


@dataclass(frozen=True)
class Family:
    """A metric's name without the suffixes of the exposition, and its help text."""

    name: str
    text: str
    speculative: bool = False


COUNTERS: tuple[Family, ...] = (
    Family("spec_decode_num_drafts", "Number of spec decoding drafts.", speculative=True),
    Family("spec_decode_num_draft_tokens", "Number of draft tokens.", speculative=True),
    Family("spec_decode_num_accepted_tokens", "Number of accepted tokens.", speculative=True),
    Family("spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", speculative=True),
    Family("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens."),
    Family("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens."),
    Family("num_preemptions", "Cumulative number of preemption from the engine."),
    Family("prompt_tokens", "Number of prefill tokens processed."),
    Family("prompt_tokens_cached", "Number of cached prompt tokens (local + external)."),
    Family("generation_tokens", "Number of generation tokens processed."),
    Family("request_success", "Count of successfully processed requests."),
)


HISTOGRAMS: tuple[Family, ...] = (
    Family("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request."),
    Family("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request."),
)


@dataclass
class Histogram:
    """Observations in seconds, by bucket."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(SECONDS_BUCKETS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.buckets[bisect.bisect_left(SECONDS_BUCKETS, seconds)] += 1
        self.total += seconds

    def samples(self, name: str, base: dict[str, str]) -> Iterator[tuple[str, dict[str, str], float]]:
        """Lines of the exposition: cumulative buckets, count, sum."""
        for edge, count in zip((*map(str, map(float, SECONDS_BUCKETS)), "+Inf"), accumulate(self.buckets), strict=True):
            yield f"{name}_bucket", {**base, "le": edge}, count
        yield f"{name}_count", base, sum(self.buckets)
        yield f"{name}_sum", base, self.total


@dataclass(frozen=True)
class Increment:
    """What one engine step adds."""

    prompt: int = 0
    cached: int = 0
    generated: int = 0
    drafted: int = 0
    accepted: int = 0
    preempted: int = 0


@dataclass
class Counters:
    """Counts under a lock; a scrape sees whole steps only."""

    settings: Settings
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _counts: dict[str, int] = field(default_factory=dict, init=False)
    _finished: dict[str, int] = field(default_factory=dict, init=False)
    _running: int = field(default=0, init=False)
    _waiting: int = field(default=0, init=False)
    _seconds: dict[str, Histogram] = field(default_factory=dict, init=False)
    _started: float = field(default_factory=time.time, init=False)

    def add(self, step: Increment) -> None:
        """Count one engine step."""
        amounts = {
            "prompt_tokens": step.prompt,
            "prefix_cache_queries": step.prompt,
            "prefix_cache_hits": step.cached,
            "prompt_tokens_cached": step.cached,
            "generation_tokens": step.generated,
            "spec_decode_num_drafts": int(step.drafted > 0),
            "spec_decode_num_draft_tokens": step.drafted,
            "spec_decode_num_accepted_tokens": step.accepted,
            "spec_decode_num_accepted_tokens_per_pos": step.accepted,
            "num_preemptions": step.preempted,
        }
        with self._lock:
            for name, amount in amounts.items():
                if amount:
                    self._counts[name] = self._counts.get(name, 0) + amount

    def wait(self) -> None:
        """A request comes into the queue."""
        with self._lock:
            self._waiting += 1

    def begin(self) -> None:
        """A request leaves the queue and starts running."""
        with self._lock:
            self._waiting -= 1
            self._running += 1

    def end(self, reason: str, *, queue_s: float = 0.0, service_s: float = 0.0) -> None:
        """A running request ends; vLLM observes its phases only now."""
        with self._lock:
            self._running -= 1
            self._finished[reason] = self._finished.get(reason, 0) + 1
            for family, seconds in zip(HISTOGRAMS, (queue_s, service_s), strict=True):
                self._seconds.setdefault(family.name, Histogram()).observe(seconds)

    def finish_foreign(self) -> None:
        """A request that nobody here sent has ended."""
        with self._lock:
            self._finished["length"] = self._finished.get("length", 0) + 1

    def reset(self) -> None:
        """As if the process had been started anew."""
        with self._lock:
            self._counts.clear()
            self._finished.clear()
            self._seconds.clear()
            self._started = time.time()

    def exposition(self) -> str:
        """The body of /metrics."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _process_lines(self._started)
        base = {"engine": "0", "model_name": self.settings.served_name}
        for family in COUNTERS:
            if family.speculative and self.settings.draft_tokens == 0:
                continue
            name = f"vllm:{family.name}"
            rows = self._rows(family.name, base)
            yield from _family(f"{name}_total", family.text, "counter", rows)
            yield from _family(f"{name}_created", family.text, "gauge", [(labels, self._started) for labels, _ in rows])
        running = "Number of requests in model execution batches."
        yield from _family("vllm:num_requests_running", running, "gauge", [(base, self._running)])
        yield from _family(
            "vllm:num_requests_waiting", "Number of requests waiting to be processed.", "gauge", [(base, self._waiting)]
        )
        for family in HISTOGRAMS:
            name = f"vllm:{family.name}"
            yield f"# HELP {name} {family.text}"
            yield f"# TYPE {name} histogram"
            for sample, labels, value in self._seconds.get(family.name, Histogram()).samples(name, base):
                yield _sample(sample, labels, value)
        usage = "KV-cache usage. 1 means 100 percent usage."
        yield from _family("vllm:kv_cache_usage_perc", usage, "gauge", [(base, 0)])
        info = [(_cache_config(self.settings), 1.0)]
        yield from _family("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", "gauge", info)

    def _rows(self, name: str, base: dict[str, str]) -> list[tuple[dict[str, str], float]]:
        if name == "request_success":
            reasons = FINISHED_REASONS
            return [({**base, "finished_reason": r}, self._finished.get(r, 0)) for r in reasons]
        labels = {**base, "position": "0"} if name.endswith("_per_pos") else base
        return [(labels, self._counts.get(name, 0))]


def _process_lines(started: float) -> Iterator[str]:
    resident = int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    text = "Resident memory size in bytes."
    yield from _family("process_resident_memory_bytes", text, "gauge", [({}, resident)])
    text = "Start time of the process since unix epoch in seconds."
    yield from _family("process_start_time_seconds", text, "gauge", [({}, started)])


def _family(name: str, text: str, kind: str, rows: list[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in rows:
        yield _sample(name, labels, value)


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    inner = ",".join(f'{key}="{_escape(labels[key])}"' for key in sorted(labels))
    return f"{name}{{{inner}}} {_go(value)}" if inner else f"{name} {_go(value)}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _go(value: float) -> str:
    """A number as Go prints it: from a million on with an exponent, which a reader must understand."""
    plain = repr(float(value))
    dot = plain.find(".")
    if dot <= 6 or "e" in plain:
        return plain
    digits = (plain[:dot] + plain[dot + 1 :]).rstrip("0") or "0"
    return f"{digits[0]}.{digits[1:] or '0'}e+{dot - 1:02d}"


def _cache_config(settings: Settings) -> dict[str, str]:
    """The labels that vLLM fills from its CacheConfig, those that a harness may read."""
    return {
        "engine": "0",
        "block_size": str(BLOCK_SIZE),
        "cache_dtype": str(settings.flags.get("kv_cache_dtype", "auto")),
        "enable_prefix_caching": str(settings.flags.get("enable_prefix_caching", True)),
        "gpu_memory_utilization": str(settings.flags.get("gpu_memory_utilization", 0.92)),
        "kv_cache_max_concurrency": str(settings.max_concurrency),
        "kv_cache_size_tokens": str(settings.kv_tokens - BLOCK_SIZE * settings.faults.hit("kv-disagrees")),
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(settings.kv_blocks),
        "num_gpu_blocks_override": str(settings.flags.get("num_gpu_blocks_override")),
        "prefix_caching_hash_algo": "sha256",
        "sliding_window": "None",
    }
