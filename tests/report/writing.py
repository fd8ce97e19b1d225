"""Writes the folder of a launch that never ran, through the real records."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from harness.evidence.bundle import LaunchDir, append_record, write_json, write_record
from harness.observe.phases import HEALTHY, PROCESS, SERVED
from harness.records import Exit, LaunchRecord, Mark, OutputRecord, PlannedLaunch, RequestRecord, Usage, Window
from harness.words import LaunchStatus, Step

MS = 1_000_000
S = 1_000 * MS
PASSES = 3
CONTEXT = 2048
MODEL = "/home/somebody/models/tiny-mtp"

LOG = (
    (4.25, "(APIServer pid=7) INFO 01-02 03:04:09 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config"),
    (5.50, "(EngineCore pid=8) INFO 01-02 03:04:10 [runner.py:2] Starting to load model /home/somebody/models/tiny"),
    (6.12, "(EngineCore pid=8) INFO 01-02 03:04:11 [loader.py:3] Loading weights took 0.61 seconds"),
    (6.50, "(EngineCore pid=8) INFO 01-02 03:04:11 [backends.py:4] Dynamo bytecode transform time: 1.0 s"),
    (9.001, "(EngineCore pid=8) INFO 01-02 03:04:14 [kv.py:5] GPU KV cache size: 4,096 tokens"),
    (9.504, "(EngineCore pid=8) INFO 01-02 03:04:14 [core.py:6] init engine (profile, create kv cache) took 4.0 s"),
    (10.007, "(APIServer pid=7) INFO:     Application startup complete."),
)
"""Lines of a start-up with the second of their arrival."""

ACCEPTED_PER_DRAFTS = {1: (0, 0, (1,)), 8: (4, 3, (1, 2, 2, 2, 1)), 9: (5, 3, (1, 2, 2, 2, 1, 1))}
"""By asked tokens: drafts, accepted drafts, tokens per event."""


@dataclass
class Faults:
    """What went wrong in the session; by default nothing."""

    failed: str | None = None
    """Id of a launch whose server died in start-up."""
    reason: str = "the server ended by itself (exit code 1)"
    log_tail: str = "Traceback (most recent call last):\nValueError: no"
    not_started: tuple[str, ...] = ()
    interrupted: str | None = None
    slow_decode: tuple[str, ...] = ()
    """Launches whose decode passes take twice as long."""
    commit: str | None = "a" * 40
    dirty: bool | None = False
    miscounted_prefill: tuple[str, ...] = ()
    """Launches in whose second prefill pass the server counts a prefix-cache hit."""


@dataclass
class LaunchWriter:
    """Writes one launch; time goes on with every mark and request."""

    folder: LaunchDir
    launch: PlannedLaunch
    faults: Faults
    now: int = 0
    scrapes: int = 0
    asked: int = 0
    counters: dict[str, int] = field(default_factory=dict)

    def write(self) -> None:
        self.folder.metrics_dir.mkdir(parents=True)
        begin = self.now = self.launch.ordinal * 1000 * S
        dead = self.launch.id == self.faults.failed
        self._mark(PROCESS, "launcher")
        log = self._log(begin, LOG[:3] if dead else LOG)
        self.now = begin + (8 * S if dead else int(10.5 * S))
        if not dead:
            self._mark(HEALTHY, "http")
            self._scrape()
            self._step(Step.READINESS, None, 8)
            self._mark(SERVED, "http")
            self._course()
        self._mark("stop asked", "launcher")
        self.now += 500 * MS
        self._mark("stopped", "launcher")
        self._samples(begin)
        write_json(self.folder.caches_file, {"start": {}, "ready": {"a": 1}, "end": {"a": 1}})
        config = '{"method":"mtp","num_speculative_tokens":1}'
        write_record(
            self.folder.record_file,
            LaunchRecord(
                launch=self.launch,
                status=LaunchStatus.FAILED if dead else LaunchStatus.COMPLETED,
                stage="health" if dead else None,
                reason=self.faults.reason if dead else None,
                log_tail=self.faults.log_tail if dead else None,
                argv=("/home/somebody/venv/bin/vllm", "serve", MODEL, "--speculative-config", config),
                env={},
                begin_ns=begin,
                begin_wall="2026-01-02T03:04:05.000+00:00",
                end_ns=self.now,
                exit=Exit(code=1 if dead else 0, signal=None, asked=not dead),
                log_sha256=hashlib.sha256(log).hexdigest(),
                log_bytes=len(log),
            ),
        )

    def _log(self, begin: int, lines: tuple[tuple[float, str], ...]) -> bytes:
        log, times = b"", []
        for second, line in lines:
            log += f"{line}\n".encode()
            times.append(f"{json.dumps([len(log), begin + int(second * S)])}\n")
        self.folder.log_file.write_bytes(log)
        self.folder.log_times_file.write_text("".join(times))
        return log

    def _course(self) -> None:
        self._step(Step.FIRST_PROMPT, CONTEXT, 8)
        for number in range(PASSES):
            self._step(Step.PREFILL, CONTEXT, 1, number)
        for number in range(PASSES):
            self._step(Step.DECODE, CONTEXT, 9, number)
        for number in range(2):
            self._step(Step.IDENTITY, None, 8, number)

    def _step(self, step: Step, context: int | None, tokens: int, number: int = 0) -> None:
        self._mark("step begins", "course", step, context)
        window, begin, before = f"{step}/{context or 0}/{number}", self.now, self._scrape_name()
        self._ask(window, step, context, tokens, number)
        end = self.now
        self._scrape()
        append_record(
            self.folder.windows_file,
            Window(
                window=window,
                step=step,
                context_tokens=context,
                pass_number=number,
                begin_ns=begin,
                end_ns=end,
                scrape_before=before,
                scrape_after=self._scrape_name(),
            ),
        )
        self._mark("step ends", "course", step, context)

    def _ask(self, window: str, step: Step, context: int | None, tokens: int, number: int) -> None:
        drafts, accepted, events = ACCEPTED_PER_DRAFTS[tokens]
        prompt = context or 16
        miscounted = step is Step.PREFILL and number == 1 and self.launch.id in self.faults.miscounted_prefill
        self._count(prompt_tokens=prompt, generation_tokens=tokens, requests=1, drafts=drafts, accepted=accepted)
        self._count(hits=int(miscounted))
        self.asked += 1
        sent = self.now + MS
        per_event = (20 if self.launch.id in self.faults.slow_decode else 10) * MS
        times = [sent + (100 + 10 * number) * MS + i * per_event for i in range(len(events))]
        self.now = times[-1] + MS
        append_record(
            self.folder.requests_file,
            RequestRecord(
                request=f"{self.asked:04d}",
                window=window,
                step=step,
                context_tokens=context,
                pass_number=number,
                index=0,
                prompt_sha256="0" * 64,
                prompt_tokens=prompt,
                asked_tokens=tokens,
                sampling={},
                status=200,
                begin_ns=sent - MS,
                sent_ns=sent,
                event_ns=tuple(times),
                event_tokens=events,
                end_ns=self.now,
                usage=Usage(prompt_tokens=prompt, completion_tokens=tokens),
                finish_reason="length",
                error=None,
            ),
        )
        append_record(
            self.folder.outputs_file,
            OutputRecord(
                request=f"{self.asked:04d}", token_ids=(1,) * tokens, text="x", finish_reason="length", sha256="e" * 64
            ),
        )

    def _count(self, **more: int) -> None:
        for name, value in more.items():
            self.counters[name] = self.counters.get(name, 0) + value

    def _scrape_name(self) -> str:
        return f"{self.scrapes:03d}.prom"

    def _scrape(self) -> None:
        self.scrapes += 1
        names = {
            "vllm:prompt_tokens_total": "prompt_tokens",
            "vllm:generation_tokens_total": "generation_tokens",
            "vllm:request_success_total": "requests",
            "vllm:spec_decode_num_drafts_total": "drafts",
            "vllm:spec_decode_num_accepted_tokens_total": "accepted",
            "vllm:prefix_cache_hits_total": "hits",
            "vllm:num_preemptions_total": "none",
        }
        lines = [f'{theirs}{{engine="0"}} {self.counters.get(ours, 0)}.0' for theirs, ours in names.items()]
        lines += ["process_start_time_seconds 1.0", 'vllm:num_requests_running{engine="0"} 0.0']
        lines += ['vllm:cache_config_info{engine="0",kv_cache_size_tokens="4096"} 1.0']
        (self.folder.metrics_dir / self._scrape_name()).write_text("\n".join(lines) + "\n")

    def _mark(self, name: str, source: str, step: Step | None = None, context: int | None = None) -> None:
        self.now += MS
        append_record(
            self.folder.timeline_file,
            Mark(mark=name, mono_ns=self.now, wall="", source=source, step=step, context_tokens=context),
        )

    def _samples(self, begin: int) -> None:
        times = list(range(begin, self.now, 250 * MS))
        columns = {
            "mono_ns": times,
            "process": ["1"] * len(times),
            "rss_bytes": [(100 + i) << 20 for i in range(len(times))],
        }
        pq.write_table(pa.table(columns), self.folder.host_samples_file)
