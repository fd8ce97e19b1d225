"""Counters out of a raw Prometheus scrape. What is not there is None, never 0."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

COUNTERS = {
    "prompt_tokens": "vllm:prompt_tokens",
    "generation_tokens": "vllm:generation_tokens",
    "prefix_hits": "vllm:prefix_cache_hits",
    "requests": "vllm:request_success",
    "preemptions": "vllm:num_preemptions",
    "drafts": "vllm:spec_decode_num_drafts",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens",
    "accepted": "vllm:spec_decode_num_accepted_tokens",
}
"""Our name and vLLM's, without the `_total` that the exposition adds."""

SECONDS = {
    "queue": "vllm:request_queue_time_seconds_sum",
    "service": "vllm:request_inference_time_seconds_sum",
}
"""Seconds summed over finished requests: waiting to be scheduled, and running from then on."""

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
CACHE_CONFIG = "vllm:cache_config_info"
PROCESS_START = "process_start_time_seconds"


@dataclass(frozen=True)
class Scrape:
    """What one scrape said, summed over engines."""

    counters: dict[str, float]
    running: float | None
    cache_config: dict[str, str]
    process_start: float | None
    waiting: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Delta:
    """Counters between two scrapes; a name that is missing in either has no delta."""

    counts: dict[str, int]
    reset: bool
    """A counter fell or the process is another one: nothing here may be used."""
    seconds: dict[str, float] = field(default_factory=dict)

    def seconds_of(self, name: str) -> float | None:
        """Seconds of a phase, summed over the requests that ended within; None where unknown."""
        return None if self.reset else self.seconds.get(name)

    def get(self, name: str) -> int | None:
        """The difference, or None where it is unknown."""
        return None if self.reset else self.counts.get(name)


def parse(text: str) -> Scrape:
    """Read a scrape in the text exposition format.

    Raises:
        ValueError: it is none.
    """
    counters: dict[str, float] = {}
    running: float | None = None
    waiting: float | None = None
    cache_config: dict[str, str] = {}
    process_start: float | None = None
    seconds: dict[str, float] = {}
    ours = {theirs: name for name, theirs in COUNTERS.items()}
    phases = {theirs: name for name, theirs in SECONDS.items()}
    for family in text_string_to_metric_families(_relevant(text)):
        for sample in family.samples:
            name = sample.name.removesuffix("_total")
            if name in ours:
                if not math.isfinite(sample.value):
                    raise ValueError(f"{sample.name} is {sample.value}")
                counters[ours[name]] = counters.get(ours[name], 0.0) + sample.value
            elif name == RUNNING:
                running = (running or 0.0) + sample.value
            elif name == WAITING:
                waiting = (waiting or 0.0) + sample.value
            elif name in phases:
                seconds[phases[name]] = seconds.get(phases[name], 0.0) + sample.value
            elif name == CACHE_CONFIG:
                cache_config = dict(sample.labels)
            elif name == PROCESS_START:
                process_start = sample.value
    return Scrape(counters, running, cache_config, process_start, waiting, seconds)


def delta(before: Scrape | None, after: Scrape | None) -> Delta | None:
    """What happened between two scrapes; None where one of them failed."""
    if before is None or after is None:
        return None
    names = before.counters.keys() & after.counters.keys()
    counts = {n: round(after.counters[n] - before.counters[n]) for n in sorted(names)}
    # A labelled counter appears with its first event: before that it was zero, if the process is the same.
    for name in after.counters.keys() - names:
        counts[name] = round(after.counters[name])
    reset = before.process_start != after.process_start or any(v < 0 for v in counts.values())
    seconds = {n: after.seconds[n] - before.seconds[n] for n in sorted(before.seconds.keys() & after.seconds.keys())}
    return Delta(counts, reset, seconds)


def kv_cache_tokens(scrape: Scrape) -> int | None:
    """`kv_cache_size_tokens` of the cache configuration (vLLM 0.24 and later), in tokens."""
    value: Any = scrape.cache_config.get("kv_cache_size_tokens")
    return int(value) if value and str(value).isdigit() else None


def _relevant(text: str) -> str:
    """Only the lines that are read here: a scrape is mostly histogram buckets."""
    wanted = (*COUNTERS.values(), *SECONDS.values(), RUNNING, WAITING, CACHE_CONFIG, PROCESS_START)
    return "\n".join(line for line in text.splitlines() if line.startswith(wanted)) + "\n"
