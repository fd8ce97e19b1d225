"""One launch, played without a server: its log, its counters, its answers, on a clock of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from harness.client.prompts import PromptKey, prompt_ids, prompt_sha256
from harness.config.course import Context
from harness.evidence.bundle import Bundle, LaunchDir, write_json, write_record
from harness.forge.recipe import Recipe
from harness.records import (
    CheckRecord,
    Exit,
    LaunchRecord,
    Mark,
    OutputRecord,
    Plan,
    PlannedLaunch,
    RequestRecord,
    Usage,
    Window,
)
from harness.records.client import ClientLoad, Gauge
from harness.session.asking import output_sha256
from harness.session.compose import server_argv
from harness.words import Arm, Cache, LaunchStatus, Step, Warmup

from .bundles import CONTEXTS, Behaviour, Kernel
from .engine import ENGINE, PREFILL_TOK_S, STEP_S, WALL, Clock, Counters, accepted, events_of, inductor, wall_at


@dataclass
class _Launch:
    """A launch while it is played."""

    plan: Plan
    launch: PlannedLaunch
    does: Behaviour
    recipe: Recipe
    clock: Clock
    folder: LaunchDir
    counters: Counters = field(default_factory=Counters)
    log: list[tuple[bytes, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    requests: list[RequestRecord] = field(default_factory=list)
    outputs: list[OutputRecord] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    traced: list[dict[str, Any]] = field(default_factory=list)
    scrapes: int = 0
    last_scrape: str | None = None
    clock_ahead_s: float = 0.0

    # -- what is seen from outside ----------------------------------------------------------------

    def say(self, *lines: str) -> None:
        self.log += [(f"{line}\n".encode(), self.clock.now_ns) for line in lines]

    def mark(self, name: str, source: str, step: Step | None = None, context: int | None = None) -> None:
        now = self.clock.pass_s(0.0001)
        if self.does.clock_set and self.does.clock_set[0] == name:
            self.clock_ahead_s = self.does.clock_set[1]
        wall = wall_at(now, self.clock_ahead_s)
        self.marks.append(Mark(mark=name, mono_ns=now, wall=wall, source=source, step=step, context_tokens=context))

    def scrape(self) -> str:
        self.scrapes += 1
        name = f"{self.scrapes:03d}.prom"
        text = self.counters.text(self.does.kv_tokens, speculating=bool(self.draft_tokens))
        if self.scrapes == 1 and self.does.first_scrape is not None:
            text = self.does.first_scrape
        self.folder.metrics_dir.mkdir(exist_ok=True)
        (self.folder.metrics_dir / name).write_text(text, "utf-8")
        return name

    @property
    def draft_tokens(self) -> int:
        return self.plan.profile.modes[self.launch.mode].draft_tokens

    def trace(self, kernels: tuple[Kernel, ...]) -> None:
        """The tracer sees these kernels compiled."""
        for kernel, constexprs in kernels if self.launch.trace else ():
            begin = self.clock.pass_s(0.001)
            backend, origin = self.does.kernels_from
            event = {"event": "compile", "backend": backend, "kernel": kernel, "pid": 8, "rank": 0}
            event |= {"begin_ns": begin, "end_ns": self.clock.pass_s(0.05), "constexprs": dict(constexprs)}
            event |= {"origin": origin, "free_before_bytes": 3 << 30, "free_after_bytes": (3 << 30) - (50 << 20)}
            self.traced.append({"record": "kernel", **event})

    # -- the start --------------------------------------------------------------------------------

    def start(self) -> None:
        does, cold = self.does, self.launch.cache is Cache.COLD
        self.mark("process started", "launcher")
        self.clock.pass_s(does.start_s / 2)
        self.say(f"{ENGINE}[core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: x")
        self.say(*(f"{ENGINE}[vllm.py:1] {line}" for line in does.said_at_start))
        self.say(*(f"(EngineCore pid=7) ERROR 11-29 18:43:31 [core.py:1] {e}" for e in does.errors_at_start))
        if does.stage == "health":
            self.say("RuntimeError: Engine core initialization failed.")
            return
        compiled = ("miss" if cold else "hit") if does.compiled == "as planned" else does.compiled
        for what in () if compiled == "none" else compiled.split():
            self.say(*(inductor(what, key) for key in ("faa", "fbb")))
        tokens = does.kv_tokens if does.kv_log is None else does.kv_log
        self.trace(does.warmed)
        if tokens:
            self.say(f"{ENGINE}[kv_cache_utils.py:2327] CPU KV cache size: {tokens:,} tokens")
        self.trace(does.prepared)
        self.say(*does.start_lines)
        if does.armed:
            self.clock.pass_s(0.01)
            self.say(f"{ENGINE}[jit_monitor.py:84] Kernel JIT monitor activated; x will use mode=warn.")
        self.clock.pass_s(does.start_s / 2)
        self.mark("health", "http")
        self.mark("model", "http")

    # -- requests ---------------------------------------------------------------------------------

    def ask(
        self,
        step: Step,
        context: int | None = None,
        pass_number: int = 0,
        *,
        prompts: int = 1,
        prompt_tokens: int,
        output_tokens: int,
        streams: int = 1,
    ) -> None:
        self.mark("step begins", "course", step, context)
        before = self.last_scrape or self.scrape()
        window = f"{step}/{context or 0}/{pass_number}"
        begin = self.clock.pass_s(0.001)
        if step is Step.FIRST_PROMPT and context == self.does.contexts[-1]:
            self.trace(self.does.served)
        side_by_side = 1 if self.does.one_by_one else streams
        for index in range(0, prompts, side_by_side):
            starts, ends = self.clock.now_ns, []
            for stream in range(side_by_side):
                self.clock.now_ns = starts
                self._request(window, step, context, pass_number, index + stream, prompt_tokens, output_tokens)
                ends.append(self.clock.now_ns)
            self.clock.now_ns = max(ends)
        end = self.clock.pass_s(0.001)
        after = self._settle((self.does.faults or {}).get(window))
        self.windows.append(
            Window(
                window=window,
                step=step,
                context_tokens=context,
                pass_number=pass_number,
                begin_ns=begin,
                end_ns=end,
                scrape_before=before,
                scrape_after=after,
                streams=streams,
                client=ClientLoad(
                    cpu_ns=round(self.does.client_cpu_share * (end - begin)),
                    lag_p99_ns=None if self.does.client_lag_ms is None else round(self.does.client_lag_ms * 1e6),
                    lag_samples=100,
                ),
                gauges=(Gauge(mono_ns=begin + 1, running=self.does.slots or streams, waiting=0),) * (streams > 1),
            )
        )
        self.last_scrape = after
        if step is Step.FIRST_PROMPT and context == self.does.contexts[-1]:
            self._late()
        self.mark("step ends", "course", step, context)

    def _request(
        self,
        window: str,
        step: Step,
        context: int | None,
        pass_number: int,
        index: int,
        prompt_tokens: int,
        output_tokens: int,
    ) -> None:
        does, rule = self.does, self.recipe.rule
        prompt_pass = 0 if step is Step.IDENTITY else pass_number
        key = PromptKey(self.plan.prompt_seed, step, context or 0, prompt_pass, index)
        prompt = prompt_ids(key, prompt_tokens, len(rule.successor))
        answer = rule.expected(prompt, output_tokens)
        drafter = (does.drafter or self.recipe).rule
        events = list(events_of(answer.output_ids, drafter.wrong_drafts, speculating=bool(self.draft_tokens)))
        ids = list(answer.output_ids)
        if index == 0 and (place := (does.diverge or {}).get(window)) is not None:
            ids[place:] = [(t + 1) % len(rule.successor) for t in ids[place:]]
        logprobs = self._logprobs(prompt[-1], ids) if step is Step.IDENTITY else None
        if logprobs and does.ties_itself and index == 0:
            two = [ids[-1], (ids[-1] + 1) % len(rule.successor)]
            if window == does.ties_itself:
                two.reverse()
            ids[-1] = two[0]
            logprobs[-1] = {f"w{two[0]}": -0.69, f"w{two[1]}": -0.70}

        number = f"{len(self.requests) + 1:04d}"
        begin = self.clock.pass_s(0.0005)
        sent = self.clock.pass_s(0.0005)
        times = [self.clock.pass_s(prompt_tokens / PREFILL_TOK_S / does.speed)]
        step_s = 1e-5 if window in does.burst else STEP_S / does.speed
        times += [self.clock.pass_s(step_s) for _ in events[1:]]
        finish, status, error = "length", 200, None
        if index == 0 and window in does.http_500:
            events, times, ids, status, error = [], [], [], 500, "HTTP 500: "
        elif index == 0 and window in does.short:
            *events, last = events
            events += [last - 1] if last > 1 else []
            ids, times, finish = ids[:-1], times[: len(events)], "stop"
        elif window in does.empty:
            ids = []
        text = "".join(f"w{t}" for t in ids)
        self.requests.append(
            RequestRecord(
                request=number,
                window=window,
                step=step,
                context_tokens=context,
                pass_number=pass_number,
                index=index,
                prompt_sha256=prompt_sha256(prompt),
                prompt_tokens=prompt_tokens,
                asked_tokens=output_tokens,
                sampling={},
                status=status,
                begin_ns=begin,
                sent_ns=sent,
                event_ns=tuple(times),
                event_tokens=tuple(events),
                end_ns=self.clock.now_ns,
                usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=sum(events)) if events else None,
                finish_reason=finish if events else None,
                error=error,
            )
        )
        if window not in does.lost:
            self.outputs.append(
                OutputRecord(
                    request=number,
                    token_ids=tuple(ids),
                    text=text,
                    finish_reason=finish,
                    sha256=output_sha256(ids, text, finish),
                    top_logprobs=tuple(logprobs) if logprobs and ids else None,
                )
            )
        drafts = len(events[1:]) if self.draft_tokens else 0
        self.counters.add(
            prompt_tokens=prompt_tokens if events else 0,
            generation_tokens=sum(events),
            request_success=1 if events else 0,
            spec_decode_num_drafts=drafts,
            spec_decode_num_draft_tokens=drafts * self.draft_tokens,
            spec_decode_num_accepted_tokens=accepted(answer.output_ids, drafter.wrong_drafts, drafts),
        )

    def _logprobs(self, last_prompt_token: int, ids: list[int]) -> list[dict[str, float | None]]:
        """The chosen token's and the runner-up's; they are close after the special token only."""
        special = self.recipe.special_token
        plain = replace(self.recipe, changed_successor=False, near_tie=False).rule.successor[special]
        found: list[dict[str, float | None]] = []
        for before, token in zip([last_prompt_token, *ids], ids, strict=False):
            gap, other = 11.0, (token + 1) % self.recipe.vocab_size
            if before == special:
                gap = self.does.tie_nat
                other = plain if token != plain else self.recipe.other_successor
                other = other if self.does.runner_up is None else self.does.runner_up
            found.append({f"w{token}": -0.5, f"w{other}": -0.5 - gap})
        return found

    def _settle(self, fault: str | None) -> str | None:
        """Count what the fault counts, and scrape."""
        match fault:
            case "miscount":
                self.counters.add(generation_tokens=1)
            case "prefix-hit":
                self.counters.add(prefix_cache_hits=16)
            case "foreign":
                self.counters.add(request_success=1, prompt_tokens=5, generation_tokens=3)
            case "preemption":
                self.counters.add(num_preemptions=1)
            case "lost-draft":
                self.counters.add(spec_decode_num_drafts=-1, spec_decode_num_accepted_tokens=-1)
            case "extra-draft":
                self.counters.add(spec_decode_num_drafts=1, spec_decode_num_accepted_tokens=1)
            case "reset":
                self.counters = Counters(process_start=self.counters.process_start + 5)
            case "no-scrape":
                return None
        return self.scrape()

    def _late(self) -> None:
        """What a server logs while it serves its first long prompt."""
        does = self.does
        stamp = "(Worker pid=8) WARNING 11-29 18:44:00 [jit_monitor.py:140] "
        end = "This causes a latency spike; consider extending warmup to cover this shape/config."
        self.say(*(f"{stamp}Triton kernel JIT compilation during inference: {k}. {end}" for k in does.late_kernels))
        self.say(*does.late_lines)
        self.say(*(inductor("miss", f"late{i}") for i in range(does.late_compiles)))
        self.say(*(inductor("hit", f"late{i}") for i in range(does.late_loads)))
        self.say(*(f"(EngineCore pid=7) ERROR 11-29 18:44:01 [core.py:9] {e}" for e in does.errors))

    # -- the course -------------------------------------------------------------------------------

    def serve(self) -> None:
        """Readiness, the ladder where it is planned, then the course."""
        course = self.plan.profile.course
        self.ask(Step.READINESS, prompt_tokens=16, output_tokens=8)
        self.mark("first request", "http")
        self.clock.pass_s(0.5)
        if self.launch.warmup is Warmup.PRIMED:
            for number, rung in enumerate(course.ladder):
                asked = {"prompt_tokens": rung.prompt_tokens, "output_tokens": rung.output_tokens}
                self.ask(Step.LADDER, None, number, prompts=rung.concurrent, **asked)
        windows = [w for step in self.does.course for w in self._windows(step)]
        for arguments in windows[: self.does.ends_after]:
            self.ask(**arguments)
        self.clock.pass_s(0.5)

    def _windows(self, step: Step) -> Iterator[dict[str, Any]]:
        course = self.plan.profile.course
        if step is Step.IDENTITY:
            asked = {"prompt_tokens": course.identity_prompt_tokens, "output_tokens": course.identity_output_tokens}
            yield from ({"step": step, "pass_number": n, "prompts": course.identity_prompts, **asked} for n in (0, 1))
            return
        contexts = {c.prompt_tokens: c for c in course.contexts}
        for length in self.does.contexts if self.does.contexts != CONTEXTS else contexts:
            passes, tokens = self._passes(step, contexts[length])
            asked = {"prompt_tokens": length, "output_tokens": tokens}
            for n, streams in enumerate(contexts[length].streams if step is Step.DECODE else (1,)):
                more = {"streams": streams, "prompts": streams * course.requests_per_stream} if streams > 1 else {}
                yield from (
                    {"step": step, "context": length, "pass_number": n * passes + p, **asked, **more}
                    for p in range(passes)
                )

    def _passes(self, step: Step, context: Context) -> tuple[int, int]:
        course = self.plan.profile.course
        return {
            Step.FIRST_PROMPT: (1, course.first_prompt_output_tokens),
            Step.SETTLING: (1, course.decode_output_tokens),
            Step.PREFILL: (context.prefill_passes, 1),
            Step.DECODE: (context.decode_passes, course.decode_output_tokens),
        }[step]

    # -- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        self.mark("stop asked", "launcher")
        self.clock.pass_s(0.2)
        self.say(*(f"(APIServer pid=6) ERROR 11-29 18:45:00 [x.py:1] {e}" for e in self.does.errors_after_stop))
        self.say("(APIServer pid=6) INFO 11-29 18:45:00 [x.py:1] [shutdown] API server: done")
        self.clock.pass_s(0.2)
        self.mark("stopped", "launcher")

    def write(self) -> None:
        """Everything but launch.json."""
        folder, does = self.folder, self.does
        for path, records in (
            (folder.timeline_file, self.marks),
            (folder.requests_file, self.requests),
            (folder.outputs_file, self.outputs),
            (folder.windows_file, self.windows),
            (folder.checks_file, list(self._checks())),
        ):
            _write_lines(path, records)
        if self.log:
            lines = self.log[:-1] if does.cut_log else self.log
            folder.log_file.write_bytes(b"".join(line for line, _ in lines))
            ends = [sum(len(line) for line, _ in lines[: n + 1]) for n in range(len(lines))]
            times = [f"[{end}, {time_ns}]\n" for end, (_, time_ns) in zip(ends, lines, strict=True)]
            folder.log_times_file.write_text("".join(times[:-1] if does.untimed_log else times), "ascii")
        at_start = does.files_at_start
        files: dict[str, Any] = {f"inductor/{n}": 9 for n in range(0 if self.launch.cache is Cache.COLD else 5)}
        start = files if at_start is None else {f"inductor/{n}": 9 for n in range(at_start)}
        kernels, written = does.kernel_files
        start |= {f"triton/k{n}.cubin": does.kernel_entry for n in range(kernels)} | dict.fromkeys(does.found_files, 9)
        ready = start | {f"triton/w{n}.cubin": 9 for n in range(written)} | dict(does.cache_files)
        ready = {path: entry for path, entry in ready.items() if entry is not None}
        if does.compiled != "none":
            ready |= {f"inductor/{n}": 9 for n in range(5)}
        end = ready | {f"triton/{n}": 9 for n in range(does.late_files)}
        if does.stage == "caches":
            write_json(folder.caches_file, {})
        elif does.listings:
            listed = {"start": start, "ready": ready, "end": end}
            write_json(folder.caches_file, {k: v for k, v in listed.items() if k != "ready" or does.listed_ready})
        if self.launch.trace and does.traced:
            self._write_trace()
        if self.marks:
            self._write_samples()

    def _write_trace(self) -> None:
        hook = {"hook": "triton.compiler.compiler", "status": self.does.traced, "detail": "triton 3.6.0"}
        records = [{"record": "process", "format": 1, "pid": 8}, {"record": "hook", "pid": 8, **hook}, *self.traced]
        self.folder.trace_dir.mkdir()
        text = "".join(json.dumps(r) + "\n" for r in records)
        (self.folder.trace_dir / "8.jsonl").write_text(text + self.does.trace_text, "utf-8")

    def _write_samples(self) -> None:
        times = [m.mono_ns + 1 for m in self.marks]
        table = {"mono_ns": times, "process": ["vllm:7"] * len(times), "rss_bytes": [3 << 30] * len(times)}
        pq.write_table(pa.table(table), self.folder.host_samples_file)

    def _checks(self) -> Iterator[CheckRecord]:
        failed = {(name, context): message for name, context, message in self.does.failed_checks}
        for name, context in {("test_startup.py::test_served", None): "", **failed}:
            message = failed.get((name, context))
            outcome: Any = "passed" if message is None else "failed"
            yield CheckRecord(name=name, context_tokens=context, outcome=outcome, message=message or "")


def write_launch(
    bundle: Bundle, plan: Plan, launch: PlannedLaunch, does: Behaviour, recipe: Recipe, clock: Clock
) -> None:
    """Play one launch and write its folder."""
    clock.pass_s(1.0 - does.early_s)
    begin = clock.now_ns
    folder = bundle.launch(launch.id)
    folder.root.mkdir(parents=True)
    played = _Launch(plan, launch, does, recipe, clock, folder)
    if does.stage != "caches":
        played.start()
        if does.stage != "health":
            played.serve()
        played.stop()
    played.write()
    log = b"".join(line for line, _ in played.log)
    died = does.stage is not None
    status = LaunchStatus.FAILED if died else LaunchStatus.COMPLETED
    reasons = {"caches": "no warm cache: the cold launch left none"}
    record = LaunchRecord(
        launch=launch,
        status=LaunchStatus.INTERRUPTED if does.interrupted else status,
        stage=does.stage,
        reason=reasons.get(does.stage, "the server ended by itself (exit code 1)") if does.stage else None,
        log_tail="RuntimeError" if died else None,
        argv=tuple(server_argv(plan, launch, f"/models/{Arm(launch.arm)}", 8000)),
        env={},
        begin_ns=begin,
        begin_wall=WALL,
        end_ns=clock.pass_s(0.1) if does.ended else None,
        exit=Exit(code=1 if died else 0, signal=None, asked=not died, survivors_killed=does.survivors),
        log_sha256=hashlib.sha256(log).hexdigest() if log else None,
        log_bytes=len(log) if log else None,
    )
    write_record(folder.record_file, record)


def _write_lines(path: Any, records: list[Any]) -> None:
    lines = [record.model_dump_json() for record in records if isinstance(record, BaseModel)]
    if lines:
        path.write_text("\n".join(lines) + "\n", "utf-8")
