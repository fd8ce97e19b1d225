"""What a simulated engine does in itself: it lets time pass, counts, drafts, and prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

S = 1_000_000_000
PREFILL_TOK_S = 10_000.0
STEP_S = 0.005
QUEUE_S, SERVICE_S = 0.25, 1.5
WALL = "2026-11-29T18:00:00.000+00:00"
ENGINE = "(EngineCore pid=7) INFO 11-29 18:43:30 "


def wall_at(mono_ns: int, ahead_s: float = 0.0) -> str:
    """The wall clock at a monotonic time, or so many seconds ahead of it."""
    return (datetime.fromisoformat(WALL) + timedelta(seconds=mono_ns / 1e9 + ahead_s)).isoformat()


@dataclass
class Clock:
    """Monotonic time of one lane."""

    now_ns: int = 1_000 * S

    @property
    def wall(self) -> str:
        """What the wall clock shows, which began with this one."""
        return (datetime.fromisoformat(WALL) + timedelta(microseconds=self.now_ns / 1000)).isoformat()

    def pass_s(self, seconds: float) -> int:
        """Let time pass, and tell the time."""
        self.now_ns += round(seconds * S)
        return self.now_ns


@dataclass
class Counters:
    """What the server counts."""

    process_start: float = 1.5e9
    values: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(
            (
                "prompt_tokens",
                "generation_tokens",
                "prefix_cache_hits",
                "request_success",
                "num_preemptions",
                "spec_decode_num_drafts",
                "spec_decode_num_draft_tokens",
                "spec_decode_num_accepted_tokens",
            ),
            0.0,
        )
    )

    def add(self, **counts: int) -> None:
        for name, count in counts.items():
            self.values[name] += count

    def text(self, kv_tokens: int | None, *, speculating: bool) -> str:
        """A scrape, in vLLM's own form."""
        labels = 'engine="0",model_name="forged"'
        size = f',kv_cache_size_tokens="{kv_tokens}"' if kv_tokens is not None else ""
        lines = [
            f"process_start_time_seconds {self.process_start}",
            f"vllm:num_requests_running{{{labels}}} 0.0",
            f"vllm:request_queue_time_seconds_sum{{{labels}}} {self.values['request_success'] * QUEUE_S}",
            f"vllm:request_inference_time_seconds_sum{{{labels}}} {self.values['request_success'] * SERVICE_S}",
            f'vllm:cache_config_info{{block_size="128"{size}}} 1.0',
        ]
        for name, value in self.values.items():
            if name.startswith("spec") and not speculating:
                continue
            more = ',finished_reason="length"' if name == "request_success" else ""
            lines.append(f"vllm:{name}_total{{{labels}{more}}} {value}")
        return "\n".join(lines) + "\n"


def inductor(what: str, key: str) -> str:
    """Inductor's line about its cache, with TORCH_LOGS=torch._inductor.codecache."""
    source = "[rank0]:I1129 18:43:44.319000 12520 torch/_inductor/codecache.py:2316] [0/0]"
    return f"{source} fx graph cache {what} for key {key}"


def events_of(ids: tuple[int, ...], wrong: frozenset[int], *, speculating: bool) -> Iterator[int]:
    """Tokens per event: the prefill's one, then one or two per step, the last one trimmed."""
    yield 1
    delivered = 1
    while delivered < len(ids):
        step = 2 if speculating and ids[delivered - 1] not in wrong else 1
        step = min(step, len(ids) - delivered)
        yield step
        delivered += step


def accepted(ids: tuple[int, ...], wrong: frozenset[int], drafts: int) -> int:
    """Accepted ones of the first `drafts` drafts."""
    delivered, accepted = 1, 0
    for _ in range(drafts):
        right = ids[delivered - 1] not in wrong
        accepted += right
        delivered += 1 + right
    return accepted
