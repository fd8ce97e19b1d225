"""The records of a bundle: what is written once by the harness and read back by judge and report.

Times named `_ns` are CLOCK_MONOTONIC nanoseconds of the host, comparable within one boot;
`wall` is UTC in ISO 8601. A value that was not obtained is None, never 0.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from harness.config.model import Profile, Stack
from harness.records_client import ClientLoad, Gauge
from harness.statistics import Past, Tested
from harness.words import Arm, Cache, LaunchStatus, Step, Warmup, Word

SCHEMA_VERSION: Literal[1] = 1
"""Bumped when a field changes meaning or goes; the reader refuses newer bundles."""

MEASUREMENT_VERSION = 1
"""Bumped when a figure is measured otherwise, so that it is not compared with older ones."""

GPU_STAGE = "gpu"
"""Stage of a launch whose GPUs were not free: that tells nothing about an arm either."""

ENGINE_STAGE = "engine"
"""Stage of a launch that failed because what runs containers did: that tells nothing about an arm."""
IMAGE_STAGE = "image"
"""Stage of a launch whose container does not hold what its lock says: it measured something else."""

KINDS_STAGE = "request kinds"
"""Stage of a launch that ended under a request-kind probe: all that is measured was measured before."""


class Record(BaseModel):
    """A frozen record; an unknown field means a bundle of another harness."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlannedLaunch(Record):
    """One server process to be, in the order in which its lane runs it."""

    ordinal: int
    """Place in the session, from 1; the launches of a lane run in this order."""
    id: str
    """Name of the launch's folder, e.g. 007-candidate-mtp1-engine-cold."""
    lane: int
    arm: Arm
    mode: str
    warmup: Warmup
    cache: Cache
    pair: int
    """Number of the pair within the cell, from 0; -1 for a burn-in launch."""
    look: int = 1
    """2 for a launch that is run only where the mode is inconclusive without it."""
    warm_from: str | None = None
    """The cold launch whose caches a warm one starts with a copy of."""
    trace: bool = False
    """The tracer runs inside the server: kernels are judged, and nothing else."""

    @property
    def burn_in(self) -> bool:
        """Recorded, but never measured against anything."""
        return self.pair < 0 and not self.trace

    @property
    def measured(self) -> bool:
        """One of a cell's launches, and not a burn-in or a trace."""
        return self.pair >= 0 and not self.trace


class Plan(Record):
    """What a session will do, frozen before the first launch (plan.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    session: str
    profile: Profile
    control: Stack
    candidate: Stack
    smoke: bool
    seed: int
    launches: tuple[PlannedLaunch, ...]
    estimate_s: float
    primary_metrics: tuple[str, ...]
    """`mtp1 decode steps 2048`: what decides, in every warm cell of the mode."""
    looks: int = 1
    """2 where an inconclusive session may be continued: each look then has a smaller error."""
    history: tuple[Past, ...] = ()
    measurement: int = 1
    """MEASUREMENT_VERSION of the harness that measured."""

    def stack(self, arm: Arm) -> Stack:
        """The stack of an arm."""
        return self.control if arm is Arm.CONTROL else self.candidate


class Origin(Record):
    """The harness that measured: commit, cleanliness, and the packages that it ran with."""

    version: str
    commit: str | None
    """40 hex digits, or None where the harness is no git checkout."""
    dirty: bool | None
    """True when files differed from the commit; None where git could not say."""
    packages: dict[str, str]
    """Installed version of every package in the harness's environment."""


class HostFacts(Record):
    """The machine, without anything that names it."""

    system: str
    processor: str
    cores: int
    memory_mib: int
    gpus: tuple[str, ...]


class Run(Record):
    """Identity of a session (run.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    session: str
    started_wall: str
    ended_wall: str | None = None
    harness: Origin
    host: HostFacts
    selection: str
    """The suites' selection (-k, -m) in the words of pytest; '' = everything."""
    interrupted: str | None = None
    """Why the session ended before its plan did, or None."""


class ArmImage(Record):
    """The image that an arm's servers run in. Tag, ID and manifest digest are three things, never one."""

    name: str
    """What the engine is asked for: the pinned reference, or the ID of an image that was built here."""
    image_id: str
    """Digest of the image's configuration."""
    base_reference: str
    """name@sha256:digest of the manifest in its registry: of the image itself where nothing was built."""
    tag: str | None = None
    """Name of a built image on this host's engine."""
    base_image_id: str | None = None
    labels: dict[str, str] = {}
    """Labels of a built image that say what is in it."""
    lock_sha256: str | None = None
    """Hash of the stack's lock (locks/ARM/lock.json), None for a stack without one."""
    builder: str | None = None
    """buildx or classic; None where nothing was built."""
    reused: bool | None = None
    """True when an earlier session had built the same lock."""
    build_log_sha256: str | None = None
    """Of locks/ARM/build.log; None where no log of the build is at hand."""


class Lock(Record):
    """What an arm resolved to (locks/ARM.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    arm: Arm
    stack: str
    engine_version: str
    model: str
    model_sha256: dict[str, str]
    """SHA-256 per file of the model folder; empty for a hub name."""
    known_answers: bool
    """True when the model is a forged one and locks/ARM.truth.json holds its rule."""
    image: ArmImage | None = None
    """None for servers that are processes of this host."""


class Exit(Record):
    """How a server's process ended."""

    code: int | None
    """Exit code, or None when a signal ended the process."""
    signal: str | None
    """Name of that signal, e.g. SIGKILL."""
    asked: bool
    """True when the harness stopped it, False when it died by itself."""
    survivors_killed: int = 0
    """Processes of the server that outlived it and had to be killed."""
    oom_killed: bool = False
    """True when the kernel's OOM killer ended a process of the container; only an engine can tell."""
    error: str | None = None
    """What kept the server from starting, or the harness from seeing its end; None where nothing did."""

    @property
    def how(self) -> str:
        """The end in a few words, for a sentence."""
        code = f"signal {self.signal}" if self.signal else f"exit code {self.code}"
        if self.oom_killed:
            return f"out of memory: killed by the kernel's OOM killer, {code}"
        if self.error:
            return self.error if self.code is None and self.signal is None else f"{self.error}, {code}"
        return code


class ContainerFacts(Record):
    """The container that a server ran in, by identities that are never mixed up."""

    container_id: str
    image_reference: str
    """What the engine was asked for: name@sha256:digest of a manifest, or the ID of an image built here."""
    image_id: str
    """Digest of the image's configuration, read back from the running container."""
    repo_digests: tuple[str, ...]
    """Manifest digests under which the engine knows that image."""
    engine_version: str
    runtime: str
    """What the engine started it with: runc, nvidia, ..."""
    network: str
    """internal or host; none for a source check."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that were asked for."""
    started_wall: str | None = None
    """Start and end by the engine's own clock reading."""
    finished_wall: str | None = None
    restarts: int | None = None
    """0, or something else than this launch was measured."""


class GpuFacts(Record):
    """A GPU as it was when a launch began; what could not be read is None, and `unreadable` says why."""

    uuid: str
    name: str | None
    driver: str | None
    memory_bytes: int | None
    power_limit_mw: int | None
    """Enforced when the launch began."""
    power_limit_default_mw: int | None
    power_limit_max_mw: int | None
    pcie_generation: int | None
    pcie_width: int | None
    ecc: bool | None
    mig: bool | None
    unreadable: dict[str, str] = {}
    """Name of a field -> NVML's error without its prefix, e.g. NOT_SUPPORTED."""


class GpuSampling(Record):
    """How well the GPUs were watched."""

    asked_hz: float
    readings: int
    missed: int
    """Readings that were due while another one was late."""
    achieved_period_ms: float | None
    worst_gap_ms: float | None
    """Longest time between two readings of memory: what is shorter may have gone unseen."""
    cpu_pct: float | None
    """Of one core, over the whole life of the sampler."""


class GpuProcess(Record):
    """A process with a context on a GPU; nothing of its user is recorded."""

    pid: int
    name: str | None
    """None where it is not to be seen from here."""
    owner: Literal["own", "foreign", "unknown"]
    """unknown: a process that computes, in a pid namespace that the harness cannot see into."""
    compute: bool
    """False for one that only draws, as a desktop does."""
    used_bytes: int | None

    @property
    def text(self) -> str:
        """`python3 (pid 7, 512 MiB)`."""
        size = "" if self.used_bytes is None else f", {self.used_bytes >> 20:,} MiB"
        return f"{self.name or 'a process of another pid namespace'} (pid {self.pid}{size})"


class GpuState(Record):
    """One GPU at a moment between launches."""

    gpu: str
    used_bytes: int | None
    free_bytes: int | None
    processes: tuple[GpuProcess, ...] | None
    """None where the driver does not list them."""


class GpuEvent(Record):
    """What happened on a GPU (gpu.jsonl)."""

    kind: Literal["processes", "xid", "unreadable"]
    mono_ns: int
    gpu: str
    processes: tuple[GpuProcess, ...] | None = None
    """All that are there from now on."""
    reading: str | None = None
    """What could not be read; `gpu` = nothing of it, it is lost."""
    code: int | str | None = None
    """An Xid, or NVML's error."""


class GpuWatch(Record):
    """The GPUs of a launch: what they are, how they were found and left, how they were watched."""

    facts: tuple[GpuFacts, ...] = ()
    before: tuple[GpuState, ...] = ()
    """Before the server was started: what is in use now is not the server's."""
    after: tuple[GpuState, ...] = ()
    """Once the memory was back, or the wait for it was over."""
    returned: bool | None = None
    """Memory and processes were again as before; None where that could not be read."""
    return_s: float | None = None
    """How long after the server's end that took, or was waited for."""
    holders: str = ""
    """Who still held memory, when it did not return."""
    sampling: GpuSampling | None = None
    """None where the sampler ended before it could say."""
    fault: str = ""
    """Why the GPUs were not watched to the end."""


class FrozenPrompts(Record):
    """Text prompts as token ids, rendered once per session (prompts.json): every launch is asked these."""

    schema_version: Literal[1] = SCHEMA_VERSION
    launch: str
    """The launch whose server's tokenizer rendered them."""
    texts_sha256: str
    ids: dict[str, tuple[int, ...]]
    """By the text's name, in the texts' order."""
    needles: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """Fact and question of each needle."""


class LaunchRecord(Record):
    """One launch as it happened (launches/ID/launch.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    launch: PlannedLaunch
    status: LaunchStatus
    stage: str | None = None
    """The stage that failed: engine, process, health, model, first request, or a step of the course."""
    reason: str | None = None
    log_tail: str | None = None
    """Last lines of the log, where the launch failed."""
    argv: tuple[str, ...]
    effective_argv: tuple[str, ...] | None = None
    """As the kernel shows the process, or None where it was gone before it could be read."""
    env: dict[str, str]
    """Environment of the server, values of credentials removed."""
    begin_ns: int
    begin_wall: str
    end_ns: int | None = None
    exit: Exit | None = None
    container: ContainerFacts | None = None
    """None for a server that was a process of this host."""
    prompts_sha256: str | None = None
    """Hash of the text prompts as this launch's own tokenizer renders them; None where ids are asked."""
    log_sha256: str | None = None
    log_bytes: int | None = None
    gpu: GpuWatch | None = None
    """None for a launch on the CPU."""


class Mark(Record):
    """One moment of a launch (timeline.jsonl)."""

    mark: str
    mono_ns: int
    wall: str
    source: str
    """Who saw it: launcher, http, course."""
    step: Step | None = None
    context_tokens: int | None = None


class Usage(Record):
    """Token counts as the server reported them."""

    prompt_tokens: int
    completion_tokens: int


class RequestRecord(Record):
    """One request as the client saw it (requests.jsonl)."""

    request: str
    window: str
    step: Step
    context_tokens: int | None
    pass_number: int
    index: int
    """Place within the pass: identity prompts are compared by it."""
    prompt_sha256: str
    prompt_tokens: int
    asked_tokens: int
    sampling: dict[str, int | float]
    status: int | None
    """HTTP status, or None when no response came."""
    begin_ns: int
    sent_ns: int | None
    """The request's last byte was handed to the kernel."""
    first_token_ns: int | None = None
    """Arrival of the first event that bore a token of any kind; None in a bundle of before this was kept."""
    event_ns: tuple[int, ...]
    """Arrival of each event that carried tokens."""
    event_tokens: tuple[int, ...]
    """Tokens that each of those events carried."""
    end_ns: int
    usage: Usage | None
    finish_reason: str | None
    error: str | None
    prompt_class: str = "ids"
    """What the prompt is made of: ids, or text. How well drafts are accepted depends on it."""
    prefix_tokens: int | None = None
    """Of a follow-up: how many output tokens of the first answer stand at the end of its prompt."""
    kind: str | None = None
    """Name of the kind of request that it probes; None for every other request."""
    prompt_logprobs: int | None = None
    """How many prompt tokens came back with a logprob that is a number; None where none were sent."""

    @property
    def sequences(self) -> int:
        """Outputs that were asked for the one prompt; the server counts each as a request."""
        return int(self.sampling.get("n", 1))

    @property
    def all_asked_tokens(self) -> int:
        """Output tokens of all sequences together."""
        return self.asked_tokens * self.sequences

    @property
    def complete(self) -> bool:
        """Served in full: status 200, no error, every asked token, and counted so by the server."""
        wanted = self.prompt_tokens - 1 if "prompt_logprobs" in self.sampling else None
        return (
            self.status == 200
            and self.error is None
            and self.finish_reason == "length"
            and self.usage is not None
            and self.usage.completion_tokens == self.all_asked_tokens == sum(self.event_tokens)
            and self.usage.prompt_tokens == self.prompt_tokens
            and self.prompt_logprobs == wanted
        )


class OutputRecord(Record):
    """What a request produced (outputs.jsonl); of several sequences, one record each."""

    request: str
    sequence: int = 0
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str | None
    sha256: str
    """Over token ids, text and finish reason; '' for an empty output."""
    top_logprobs: tuple[dict[str, float | None], ...] | None = None
    """Per output token, the natural logprobs of the best candidates, by their text; None for a NaN."""


class Window(Record):
    """Requests between two scrapes (windows.jsonl)."""

    window: str
    step: Step
    context_tokens: int | None
    pass_number: int
    begin_ns: int
    end_ns: int
    scrape_before: str | None
    """File name below metrics/, or None when the scrape failed."""
    scrape_after: str | None
    streams: int = 1
    """Requests at a time that were asked for; a stream sends its next request when its last has ended."""
    client: ClientLoad | None = None
    """None in a bundle of before this was measured."""
    gauges: tuple[Gauge, ...] = ()
    """Sampled where several streams run."""


class CheckRecord(Record):
    """Outcome of one check of the suites (checks.jsonl)."""

    name: str
    """The check without its launch, so that arms can be compared: test_startup.py::test_served."""
    context_tokens: int | None
    outcome: Literal["passed", "failed", "skipped"]
    message: str


class Row(Record):
    """One line of the verdict."""

    name: str
    mode: str | None = None
    warmup: Warmup | None = None
    cache: str | None = None
    """The proven state of the caches; a launch that was to be warm and recompiled is not called warm."""
    context_tokens: int | None = None
    control: str | None = None
    candidate: str | None = None
    unit: str = ""
    word: Word
    reason: str
    sources: tuple[str, ...] = ()
    """Files of the bundle, with line or field, that the figures come from."""
    tested: Tested | None = None
    """The statistics behind the word; None where pairs of launches were not tested."""
    cell_sha256: str | None = None
    """Identity of the cell: only figures with the same one may be compared across sessions."""


class Verdict(Record):
    """The judge's answer (verdict.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    session: str
    verdict: Word
    exit_code: int
    evidence_root_sha256: str
    rows: tuple[Row, ...]
