"""One launch as it happened, and the moments of its timeline."""

from __future__ import annotations

from typing import Literal

from harness.records.base import SCHEMA_VERSION, Record
from harness.records.gpu import GpuWatch
from harness.records.plan import PlannedLaunch
from harness.words import LaunchStatus, Step


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
    devices: tuple[str, ...] = ()
    """Device nodes that it got, as read back; empty where the engine gives GPUs by itself."""
    started_wall: str | None = None
    """Start and end by the engine's own clock reading."""
    finished_wall: str | None = None
    restarts: int | None = None
    """0, or something else than this launch was measured."""


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
    log_cpu_ns: int | None = None
    """CPU time of reading, hashing and writing the log, over the whole launch; None in older records."""
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
