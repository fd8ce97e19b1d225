"""Counters out of a raw Prometheus scrape. What is not there is None, never 0."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

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

OLDER = {"vllm:gpu_prefix_cache_hits": "prefix_hits"}
"""Names up to 0.11, read only where the newer one is missing: some versions expose both."""

PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
SECONDS = {
    "queue": "vllm:request_queue_time_seconds_sum",
    "service": "vllm:request_inference_time_seconds_sum",
}
"""Seconds summed over finished requests: waiting to be scheduled, and running from then on."""

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
CACHE_CONFIG = "vllm:cache_config_info"
PROCESS_START = "process_start_time_seconds"

Series = dict[tuple[tuple[str, str], ...], float]
"""Values by labels: one series per engine, reason, position; no version has the same ones."""


@dataclass(frozen=True)
class Scrape:
    """What one scrape said."""

    counters: dict[str, float]
    """Summed over engines and whatever other labels a version has."""
    running: float | None
    cache_config: dict[str, str]
    """Labels of the first engine's cache configuration."""
    process_start: float | None
    waiting: float | None = None
    series: dict[str, Series] = field(default_factory=dict)
    """The counters' parts: a sum can rise while one engine starts again from 0."""
    per_position: dict[int, float] = field(default_factory=dict)
    """Accepted draft tokens by position in the draft, from 0."""
    cache_configs: tuple[dict[str, str], ...] = ()
    """Of every engine."""
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Delta:
    """Counters between two scrapes; a name that is missing in either has no delta."""

    counts: dict[str, int]
    reset: bool
    """A counter fell or the process is another one: nothing here may be used."""
    per_position: tuple[int, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    def seconds_of(self, name: str) -> float | None:
        """Seconds of a phase, summed over the requests that ended within; None where unknown."""
        return None if self.reset else self.seconds.get(name)

    def get(self, name: str) -> int | None:
        """The difference, or None where it is unknown."""
        return None if self.reset else self.counts.get(name)


@dataclass(frozen=True)
class CacheFacts:
    """The KV cache as the engines configured it; what a version does not tell is None."""

    tokens: int | None
    """`kv_cache_size_tokens` (0.24 and later), summed over engines."""
    blocks: int | None
    """`num_gpu_blocks`, summed over engines."""
    block_size: int | None
    """In tokens; None where engines differ."""
    concurrency: float | None
    """`kv_cache_max_concurrency`, in requests of maximum length, summed over engines."""


def parse(text: str) -> Scrape:
    """Read a scrape in the text exposition format.

    Raises:
        ValueError: it is none.
    """
    series: dict[str, Series] = {}
    older: dict[str, Series] = {}
    gauges: dict[str, float] = {}
    per_position: dict[int, float] = {}
    configs: list[dict[str, str]] = []
    process_start: float | None = None
    seconds: dict[str, float] = {}
    ours = {theirs: name for name, theirs in COUNTERS.items()}
    phases = {theirs: name for name, theirs in SECONDS.items()}
    for family in text_string_to_metric_families(_relevant(text)):
        for sample in family.samples:
            name, labels = sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items()))
            if name in ours:
                series.setdefault(ours[name], {})[labels] = _finite(sample.name, sample.value)
            elif name in OLDER:
                older.setdefault(OLDER[name], {})[labels] = _finite(sample.name, sample.value)
            elif name == PER_POSITION and sample.labels.get("position", "").isdecimal():
                place = int(sample.labels["position"])
                per_position[place] = per_position.get(place, 0.0) + _finite(sample.name, sample.value)
            elif name in (RUNNING, WAITING):
                gauges[name] = gauges.get(name, 0.0) + sample.value
            elif name in phases:
                seconds[phases[name]] = seconds.get(phases[name], 0.0) + sample.value
            elif name == CACHE_CONFIG:
                configs.append(dict(sample.labels))
            elif name == PROCESS_START:
                process_start = sample.value
    series = older | series
    return Scrape(
        counters={name: sum(found.values()) for name, found in series.items()},
        running=gauges.get(RUNNING),
        cache_config=configs[0] if configs else {},
        process_start=process_start,
        waiting=gauges.get(WAITING),
        series=series,
        per_position=per_position,
        cache_configs=tuple(configs),
        seconds=seconds,
    )


def delta(before: Scrape | None, after: Scrape | None) -> Delta | None:
    """What happened between two scrapes; None where one of them failed."""
    if before is None or after is None:
        return None
    counts: dict[str, int] = {}
    reset = before.process_start != after.process_start
    for name, now in after.series.items():
        then = before.series.get(name, {})
        # A labelled counter appears with its first event: before that it was zero, if the process is the same.
        # One that goes away, or falls, belongs to an engine that was started again.
        reset = reset or any(labels not in now or now[labels] < value for labels, value in then.items())
        counts[name] = round(sum(now.values()) - sum(then.values()))
    places = range(max(after.per_position, default=-1) + 1)
    per_position = tuple(round(after.per_position.get(n, 0) - before.per_position.get(n, 0)) for n in places)
    seconds = {n: after.seconds[n] - before.seconds[n] for n in sorted(before.seconds.keys() & after.seconds.keys())}
    return Delta(dict(sorted(counts.items())), reset, () if reset else per_position, seconds)


def cache_facts(scrape: Scrape) -> CacheFacts:
    """`cache_config_info` of all engines as numbers."""
    configs = scrape.cache_configs or ((scrape.cache_config,) if scrape.cache_config else ())
    sizes = {_integer(c.get("block_size")) for c in configs}
    concurrency = [_decimal(c.get("kv_cache_max_concurrency")) for c in configs]
    return CacheFacts(
        tokens=_total([_integer(c.get("kv_cache_size_tokens")) for c in configs]),
        blocks=_total([_integer(c.get("num_gpu_blocks")) for c in configs]),
        block_size=sizes.pop() if len(sizes) == 1 else None,
        concurrency=sum(c for c in concurrency if c is not None) if configs and None not in concurrency else None,
    )


def kv_cache_tokens(scrape: Scrape) -> int | None:
    """`kv_cache_size_tokens` of the cache configuration (vLLM 0.24 and later), in tokens, of all engines."""
    return cache_facts(scrape).tokens


def _total(values: list[int | None]) -> int | None:
    """A sum in which one unknown part makes the whole unknown."""
    known = [v for v in values if v is not None]
    return sum(known) if known and len(known) == len(values) else None


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 20 else None


def _decimal(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}")
    return value


def _relevant(text: str) -> str:
    """Only the lines that are read here: a scrape is mostly histogram buckets."""
    wanted = (*COUNTERS.values(), *SECONDS.values(), *OLDER, RUNNING, WAITING, CACHE_CONFIG, PROCESS_START)
    return "\n".join(line for line in text.splitlines() if line.startswith(wanted)) + "\n"
