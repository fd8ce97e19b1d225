"""Runs completions: in order of arrival it gives each its number, its output, its pace and its counts."""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.fakes import tracing
from harness.fakes.answers import Head, Reply
from harness.fakes.asks import ApiError, Ask, check_total
from harness.fakes.counters import Counters, Increment
from harness.fakes.gpu_memory import GpuMemory
from harness.fakes.late import compile_late
from harness.fakes.log_lines import ENGINE_DEAD, engine_death, error_line, late_jit, log, worker_death
from harness.fakes.model import Model, Step
from harness.fakes.settings import VERSION, Settings
from harness.fakes.workers import Workers

LATE_JIT_S = 0.25
SLOWER_S = 0.02
LATE_JIT_TOKENS = 1000
HELD_S = 2.0
UNSTABLE_AT = 3
FORMS: tuple[Literal["nan", "null"], ...] = ("nan", "null")
FOREIGN = Increment(prompt=17, generated=5)


@dataclass(frozen=True)
class Job:
    """One accepted completion."""

    number: int
    ask: Ask
    steps: tuple[Step, ...]
    finish_reason: str
    broken_off: str = "abort"
    """The finished_reason that is counted when the steps are not run to the end."""

    def is_last(self, index: int) -> bool:
        """True for a step that ends its sequence."""
        return index >= len(self.steps) - self.ask.n


@dataclass
class Engine:
    """The part behind HTTP; its methods may be called from any thread."""

    settings: Settings
    model: Model
    counters: Counters
    gpu: GpuMemory
    workers: Workers = field(default_factory=Workers, init=False)
    """Those of several ranks, once they are started."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _arrived: int = field(default=0, init=False)
    _seen: dict[int, int] = field(default_factory=dict, init=False)
    _jit_done: bool = field(default=False, init=False)
    _kept: list[mmap.mmap] = field(default_factory=list, init=False)
    _slots: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = threading.Semaphore(self.settings.slots)

    def accept(self, ask: Ask) -> Job:
        """Number a completion and decide what it will deliver.

        Raises:
            ApiError: it is refused, or a fault makes it fail.
        """
        faults = self.settings.faults
        with self._lock:
            number = self._arrived + 1
            if not faults.hit("clip-output", number):
                check_total(ask, self.settings.max_model_len)
            self._arrived = number
            prompt = hash(ask.prompt_ids)
            repeats = self._seen[prompt] = self._seen.get(prompt, 0) + 1
        if faults.due("die-after", number) or faults.hit("die-at-first-request"):
            log(*engine_death())
            os._exit(1)
        if faults.due("http-500", number):
            raise ApiError(500, ENGINE_DEAD, "InternalServerError")

        length = min(ask.max_tokens, self.settings.max_model_len - len(ask.prompt_ids))
        short = faults.hit("short-output", number)
        slips = [fault.number for fault in faults.all("diverge-at", number)]
        if repeats % 2 == 0 and faults.hit("unstable"):
            slips.append(UNSTABLE_AT)
        output = self.model.output(ask.prompt_ids, length, min(slips, default=None))
        if faults.hit("break-tie", number):
            output = self.model.with_tie_broken(ask.prompt_ids, output)
        for fault in faults.all("stuck-at", number):
            output = (*output[: fault.number], *output[fault.number : fault.number + 1] * (length - fault.number))
        return Job(
            number=number,
            ask=ask,
            steps=self._steps(ask, output[: length - short]),
            finish_reason="stop" if short else "length",
            broken_off="error" if faults.hit("error-event", number) else "abort",
        )

    def _steps(self, ask: Ask, output: Sequence[int]) -> tuple[Step, ...]:
        """Steps of all sequences, which run side by side; a request that gets nothing has a step as well."""
        steps = self.model.steps(output, self.settings.draft_tokens) or (Step(()),)
        return tuple(replace(step, sequence=number) for step in steps for number in range(ask.n))

    def reply(self, job: Job) -> Reply:
        """The writer of a job's response."""
        faults = self.settings.faults
        head = Head(
            id=f"cmpl-{secrets.token_hex(8)}",
            created=int(time.time()),
            model=self.settings.served_name,
            fingerprint=f"vllm-{VERSION}-{self._configuration_hash()}",
        )
        return Reply(
            head,
            job.ask,
            self.model,
            says=next((fault.value for fault in faults.all("says", job.number)), None),
            miscount=int(faults.hit("wrong-usage", job.number)),
            broken_logprobs=next((form for form in FORMS if faults.hit(f"{form}-logprobs", job.number)), None),
        )

    def run(self, job: Job) -> Generator[Step, None, None]:
        """A job's steps at the pace of the settings; each is counted before it is handed out.

        Closing the iterator early aborts the request.
        """
        counters, settings, running = self.counters, self.settings, job.ask.n
        arrived = time.monotonic()
        for _ in range(running):
            counters.wait()
        self._slots.acquire()
        for _ in range(running):
            counters.begin()
        began = time.monotonic()

        def end(reason: str) -> None:
            counters.end(reason, queue_s=began - arrived, service_s=time.monotonic() - began)

        try:
            self._compile_late(job)
            self._befall_workers(job)
            self._take_memory(job)
            due = began + settings.ttft_s + len(job.ask.prompt_ids) / (settings.prefill_tok_s or float("inf"))
            for index, step in enumerate(job.steps):
                first = index < job.ask.n
                # Against the clock, not step after step: what one oversleeps, the next makes good.
                due += 0.0 if first or step.sequence else settings.step_s
                due += self._dying(job, index)
                _sleep_until(due)
                if first:
                    self._count_prefill(job)
                lost = index == job.ask.n and settings.faults.hit("lost-draft", job.number)
                drafted, accepted = (0, 0) if lost else (step.drafted, step.accepted)
                counters.add(Increment(generated=len(step.tokens), drafted=drafted, accepted=accepted))
                if job.is_last(index):
                    end(job.finish_reason)
                    running -= 1
                if not running:
                    self._slots.release()
                    self._reset_after(job)
                yield step
        finally:
            for _ in range(running):
                end(job.broken_off)
            if running:
                self._slots.release()

    def _dying(self, job: Job, index: int) -> float:
        """Seconds that a slow death adds to this step; half way it is over."""
        if not self.settings.faults.due("slow-death", job.number):
            return 0.0
        if index >= len(job.steps) // 2:
            log(*engine_death())
            os._exit(1)
        return SLOWER_S * index

    def _compile_late(self, job: Job) -> None:
        late = [fault for fault in self.settings.faults.all("late-jit", job.number) if fault.at]
        if len(job.ask.prompt_ids) > LATE_JIT_TOKENS:
            with self._lock:
                first, self._jit_done = not self._jit_done, True
            late += [fault for fault in self.settings.faults.all("late-jit") if first and not fault.at]
            if first:
                compile_late(self.settings.faults, os.environ, self.settings.ranks)
                tracing.first_long_prompt(self.settings.faults, self.settings.ranks)
                self.gpu.first_long_prompt()
        for fault in late:
            # As vLLM does: the first rank alone warns, unless all are told to.
            loud = self.settings.faults.ranks(self.settings.ranks)
            verbose = self.settings.flags.get("jit_monitor_verbose") is True
            log(*(late_jit(fault.value, rank) for rank in loud if verbose or rank == 0))
            time.sleep(LATE_JIT_S)
        if self.settings.faults.hit("worker-death", job.number):
            log(*map(worker_death, self.settings.faults.ranks(self.settings.ranks)))
        if self.settings.faults.hit("error-line", job.number):
            log(error_line())

    def _befall_workers(self, job: Job) -> None:
        faults = self.settings.faults
        ranks = faults.ranks(len(self.workers.pids))
        if faults.due("worker-forks", job.number):
            self.workers.fork(ranks)
        if faults.due("worker-vanishes", job.number):
            self.workers.vanish(ranks)

    def _take_memory(self, job: Job) -> None:
        for fault in self.settings.faults.all("take-memory", job.number):
            kept, freed = (_resident(fault.number << 19) for _ in range(2))
            time.sleep(HELD_S)
            freed.close()
            self._kept.append(kept)

    def _count_prefill(self, job: Job) -> None:
        faults, prompt = self.settings.faults, len(job.ask.prompt_ids)
        cached = prompt - 1 if faults.hit("prefix-hits", job.number) else 0  # the last token is always computed
        preempted = int(faults.hit("preempt", job.number))
        self.counters.add(Increment(prompt=prompt, cached=cached, preempted=preempted))
        if faults.hit("miscount", job.number):
            self.counters.add(Increment(generated=1))
        if faults.hit("foreign-traffic", job.number):
            drafts = FOREIGN.generated - 1 if self.settings.draft_tokens else 0
            self.counters.add(FOREIGN)
            for _ in range(drafts):
                self.counters.add(Increment(drafted=1))
            self.counters.finish_foreign()

    def _reset_after(self, job: Job) -> None:
        if self.settings.faults.due("counter-reset", job.number):
            self.counters.reset()

    def _configuration_hash(self) -> str:
        config = {k: v for k, v in self.settings.flags.items() if k not in {"host", "port", "served_model_name"}}
        return hashlib.sha256(repr((self.settings.model, config)).encode()).hexdigest()[:8]


def _resident(size: int) -> mmap.mmap:
    """Memory that is really there: every page was written to."""
    block = mmap.mmap(-1, size)
    for offset in range(0, size, mmap.PAGESIZE):
        block[offset] = 1
    return block


def _sleep_until(due: float) -> None:
    if (wait_s := due - time.monotonic()) > 0:
        time.sleep(wait_s)
