"""One launch while it runs: started, brought to readiness, asked, stopped, and recorded throughout."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.client.asks import Sampling
from harness.client.prompts import DEFAULT_IDS_BELOW
from harness.config.course import Context
from harness.errors import SetupFailure
from harness.evidence.bundle import Bundle, LaunchDir, write_json, write_record
from harness.launch.caches import LaneCaches
from harness.launch.environment import redacted
from harness.launch.launcher import Folders, Launcher, LaunchFailed, Server
from harness.launch.logpipe import tail
from harness.launch.readiness import FirstRequestServed, Healthy, ModelNamed, wait_until_ready
from harness.launch.tracing import TRACER, collect
from harness.observe.log import events, read_chunks
from harness.observe.log.placed import dead_worker
from harness.records import (
    ENGINE_STAGE,
    KINDS_STAGE,
    LaunchRecord,
    OutputRecord,
    Plan,
    PlannedLaunch,
    RequestRecord,
)
from harness.session.asking import Asker, Wanted
from harness.session.cache_listings import CacheListings
from harness.session.priming import prime, serve_first
from harness.session.prompts import freeze
from harness.session.spec import server_spec, work_folder
from harness.session.timeline import Timeline, wall
from harness.session.watching import Watching
from harness.words import Cache, LaunchStatus, Step, Warmup

Recorded = list[tuple[RequestRecord, OutputRecord]]
Proof = Callable[[Server, LaunchDir], None]
"""Looks into a running server; raises LaunchFailed where it is not what it should be."""


class LiveLaunch:
    """A running server and everything that may be asked of it; what suites get as `server`."""

    def __init__(
        self,
        plan: Plan,
        launch: PlannedLaunch,
        bundle: Bundle,
        caches: LaneCaches,
        model: str,
        *,
        gpus: tuple[str, ...] = (),
        gpu_baseline: dict[str, int] | None = None,
    ) -> None:
        self.plan = plan
        self.launch = launch
        self.folder = bundle.launch(launch.id)
        self._bundle = bundle
        self._caches = caches
        work = work_folder(plan.session, launch.lane)
        self._folders = Folders(model, caches.live, work, gpus, TRACER if launch.trace else None)
        self._server: Server | None = None
        self._asker: Asker | None = None
        self._watching = Watching(plan.profile, gpus, self.folder, {} if gpu_baseline is None else gpu_baseline)
        self._listings = CacheListings(caches.live)
        self._record: LaunchRecord | None = None
        self._timeline = Timeline(self.folder.timeline_file)

    @property
    def base_url(self) -> str:
        """Root of the server's HTTP interface."""
        assert self._server is not None
        return self._server.base_url

    def resident_mib(self) -> int:
        """Resident memory of the server's processes now, in MiB."""
        return sum(u.rss_bytes for u in self._server.usage().values()) >> 20 if self._server is not None else 0

    def sample_memory(self) -> None:
        """Take a memory sample now, between those that are taken all the time."""
        self._watching.read(everything=True)

    # -- start and stop ---------------------------------------------------------------------------

    def start(self, launcher: Launcher, ids_below: int | None, *, prove: Proof | None = None) -> None:
        """Start the server and take it through readiness and, if planned, the priming ladder.

        `prove` looks into the running server before anything is measured.

        Raises:
            LaunchFailed: it did not come up; the launch is stopped and recorded.
            SetupFailure: the environment could not even start it.
        """
        profile = self.plan.profile
        self.folder.root.mkdir(parents=True)
        self._record = LaunchRecord(
            launch=self.launch,
            status=LaunchStatus.INTERRUPTED,  # until it has ended in another way
            argv=(),
            env={},
            begin_ns=time.monotonic_ns(),
            begin_wall=wall(),
        )
        self._save()
        try:
            self._caches.prepare(self.launch.cache, self.launch.warm_from)
            self._listings.take("start")
            spec = server_spec(self.plan, self.launch, launcher.view(self._folders), self._folders, self.folder)
            self._update(argv=tuple(spec.argv), env=redacted(spec.env))
            self._watching.begin()
            self._update(gpu=self._watching.gpu)
            self._server = launcher.start(spec)
            self._timeline.mark("process started", "launcher", mono_ns=self._server.started_ns)
            self._update(container=self._server.container())
            self._watching.follow(self._server)
            self._asker = Asker(
                self.folder,
                self._server.base_url,
                profile.model.served_name,
                seed=self.plan.prompt_seed,
                ids_below=profile.course.prompt_ids_below or ids_below or DEFAULT_IDS_BELOW,
                deadline_s=profile.timeouts.request_s,
            )
            self._become_ready()
            if prove is not None:
                prove(self._server, self.folder)
            self._watching.read(everything=True)
            self._freeze_prompts()
            if self.launch.warmup is Warmup.PRIMED:
                prime(self)
        except (LaunchFailed, SetupFailure) as e:
            stage, reason = (e.stage, e.reason) if isinstance(e, LaunchFailed) else ("caches", str(e))
            self.stop(LaunchStatus.FAILED, stage=stage, reason=reason)
            raise

    def stop(self, status: LaunchStatus, *, stage: str | None = None, reason: str | None = None) -> None:
        """Stop the server, whatever state it is in, and complete the record. Safe to call twice."""
        if self._record is None or self._record.end_ns is not None:
            return
        if status is LaunchStatus.COMPLETED and (death := self.death() or self._lost_worker()):
            status, stage, reason = LaunchStatus.FAILED, death.stage, death.reason
        changes: dict[str, object] = {}
        vanished: str | None = None
        if self._server is not None:
            changes["effective_argv"] = self._server.effective_argv() or self._record.effective_argv
            self._watching.read(everything=True)
            vanished = self._watching.vanished_worker()
            self._timeline.mark("stop asked", "launcher")
            exit_ = changes["exit"] = self._server.stop(self.plan.profile.timeouts.stop_s)
            self._timeline.mark("stopped", "launcher")
            if (returned := self._watching.server_ended()) is not None:
                self._timeline.mark("GPU memory back" if returned else "GPU memory not back", "gpu")
            if status is LaunchStatus.COMPLETED and exit_.error:  # its log may lack the end
                status, stage, reason = LaunchStatus.FAILED, ENGINE_STAGE, exit_.error
            changes["log_sha256"], changes["log_bytes"] = self._server.log_digest()
            changes["log_cpu_ns"] = self._server.log_cpu_ns()
            changes["container"] = self._server.container()
        if self.launch.trace and self._server is not None:
            with contextlib.suppress(OSError):  # a full disk must not cost the record too: the missing file shows
                collect(self._folders.work, self.folder.trace_dir)
        changes["gpu"] = self._watching.finish()
        if self._caches.live.is_dir():
            self._listings.take("end")
            served = status is LaunchStatus.COMPLETED or stage == KINDS_STAGE
            if served and self.launch.cache is Cache.COLD and self.launch.measured:
                self._caches.keep(self.launch.id)
        write_json(self.folder.caches_file, self._listings.taken)
        if status is LaunchStatus.FAILED:
            changes["log_tail"] = tail(self.folder.log_file)
            worker = _dead_worker(self.folder.log_file) or vanished
            reason = "; ".join(dict.fromkeys(filter(None, (reason, worker)))) or None
        changes |= {"status": status, "stage": stage, "reason": reason, "end_ns": time.monotonic_ns()}
        self._update(**changes)
        shutil.rmtree(self._folders.work, ignore_errors=True)

    def read_gpus(self, step: Step) -> None:
        """Have a sample of everything at this moment, as part of a step."""
        self._watching.read(everything=True)
        self._timeline.mark("GPUs read", "gpu", step=step)

    def died(self) -> str | None:
        """How the server ended by itself, or None while it runs."""
        death = self.death()
        return None if death is None else death.reason

    def death(self) -> LaunchFailed | None:
        """Why nothing can be asked of the server any more, or None while it runs."""
        try:
            exit_ = self._server.ended() if self._server is not None else None
        except LaunchFailed as e:
            return e
        if exit_ is None:
            return None
        return LaunchFailed(self._stage(), f"the server ended by itself ({exit_.how})")

    def _lost_worker(self) -> LaunchFailed | None:
        """A worker's death before the stop, by the log or else its process: its server needs up to ten seconds."""
        worker = _dead_worker(self.folder.log_file) or self._watching.vanished_worker()
        return None if worker is None else LaunchFailed(self._stage(), worker)

    def _stage(self) -> str:
        return KINDS_STAGE if self._timeline.last_step is Step.REQUEST_KINDS else "after ready"

    # -- the course -------------------------------------------------------------------------------

    def first_prompt(self, context: Context) -> Recorded:
        """The first prompt of this length that the server ever sees."""
        wanted = Wanted(context.prompt_tokens, self.plan.profile.course.first_prompt_output_tokens)
        self._watching.read()  # what the prompt takes and keeps is counted from here
        recorded = self.ask(Step.FIRST_PROMPT, [wanted], context_tokens=context.prompt_tokens)
        self._watching.read()
        self._listings.take_changes(f"after {Step.FIRST_PROMPT} {context.prompt_tokens}")
        return recorded

    def prefill(self, context: Context) -> Recorded:
        """Prefill passes: one prompt, one output token, each with a prompt of its own."""
        return [
            recorded
            for number in range(context.prefill_passes)
            for recorded in self.ask(
                Step.PREFILL,
                [Wanted(context.prompt_tokens, 1)],
                context_tokens=context.prompt_tokens,
                pass_number=number,
            )
        ]

    def decode(self, context: Context) -> Recorded:
        """Decode passes: a prompt of the context's length, then a fixed number of output tokens.

        Passes are numbered on from one number of streams to the next, so that no prompt comes twice.
        """
        course = self.plan.profile.course
        wanted = Wanted(context.prompt_tokens, course.decode_output_tokens)
        passes = [streams for streams in context.streams for _ in range(context.decode_passes)]
        return [
            recorded
            for number, streams in enumerate(passes)
            for recorded in self.ask(
                Step.DECODE,
                [wanted] * (streams * course.requests_per_stream if streams > 1 else 1),
                context_tokens=context.prompt_tokens,
                pass_number=number,
                concurrent=streams,
            )
        ]

    def identity(self) -> Recorded:
        """Two passes over the same prompts, one request at a time, with the two best logprobs."""
        course = self.plan.profile.course
        wanted = Wanted(
            course.identity_prompt_tokens,
            course.identity_output_tokens,
            Sampling(logprobs=course.identity_logprobs or None),
            prompt_pass=0,
        )
        return [
            recorded
            for number in range(2)
            for recorded in self.ask(Step.IDENTITY, [wanted] * course.identity_prompts, pass_number=number)
        ]

    def ask(
        self,
        step: Step,
        wanted: list[Wanted],
        *,
        context_tokens: int | None = None,
        pass_number: int = 0,
        concurrent: int = 1,
        deadline_s: float | None = None,
    ) -> Recorded:
        """Send requests as part of a step of the course, between two marks of the timeline."""
        assert self._asker is not None
        with self._timeline.step(step, context_tokens):
            return self._asker.ask(
                step,
                wanted,
                context_tokens=context_tokens,
                pass_number=pass_number,
                concurrent=concurrent,
                deadline_s=deadline_s,
            )

    # -- parts ------------------------------------------------------------------------------------

    def _become_ready(self) -> None:
        assert self._server is not None
        timeouts = self.plan.profile.timeouts
        stages = (
            Healthy(timeouts.health_s),
            ModelNamed(self.plan.profile.model.served_name, timeouts.model_named_s),
            FirstRequestServed(partial(serve_first, self), timeouts.first_request_s),
        )
        wait_until_ready(self._server, stages, lambda name: self._timeline.mark(name, "http"))
        self._listings.take("ready")
        self._update(effective_argv=self._server.effective_argv())

    def _freeze_prompts(self) -> None:
        profile = self.plan.profile
        if profile.course.prompts == "text" and self._asker is not None:
            model, seed = profile.model.served_name, self.plan.prompt_seed
            self._asker.texts, own = freeze(self._bundle, self.launch.id, self.base_url, model=model, seed=seed)
            self._update(prompts_sha256=own)

    def _update(self, **changes: object) -> None:
        assert self._record is not None
        self._record = self._record.model_copy(update=changes)
        self._save()

    def _save(self) -> None:
        assert self._record is not None
        write_record(self.folder.record_file, self._record)


def _dead_worker(log_file: Path) -> str | None:
    """The worker whose death takes the server along, as the log tells it so far."""
    with contextlib.suppress(OSError), log_file.open("rb") as stream:
        return dead_worker(events(read_chunks(stream)))
    return None


def never_begun(launch: PlannedLaunch, stage: str, reason: str) -> LaunchRecord:
    """The record of a launch that did not get as far as to be started."""
    now = time.monotonic_ns()
    return LaunchRecord(
        launch=launch,
        status=LaunchStatus.FAILED,
        stage=stage,
        reason=reason,
        argv=(),
        env={},
        begin_ns=now,
        begin_wall=wall(),
        end_ns=now,
    )
