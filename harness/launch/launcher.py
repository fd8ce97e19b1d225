"""What every launcher offers, whichever way it starts a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.errors import QualifyError
from harness.observe.sampler import Usage
from harness.records import ContainerFacts, Exit
from harness.words import ExitCode


class LaunchFailed(QualifyError):  # noqa: N818  # reads as what happened
    """A server did not come up, or died; carries the stage, the reason and the log's end."""

    exit_code = ExitCode.FAIL

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = reason


WORK_DIR_PREFIX = "qualify-"
"""How the names of work folders begin, so that a clean-up removes nothing else."""


@dataclass(frozen=True)
class Folders:
    """What a server gets of this host."""

    model: str
    """A folder, or a hub name."""
    caches: Path
    work: Path
    """Current folder of the server: empty, and removed after it."""
    gpus: tuple[str, ...] = ()
    """UUIDs; empty for the CPU."""
    tracer: Path | None = None
    """The tracer's code, for a trace launch; the server may read it."""


@dataclass(frozen=True)
class View:
    """The same as the server sees it, which is what its command and environment must name."""

    host: str
    """Address to listen on."""
    port: int
    model: str
    caches: Path
    work: Path
    tracer: Path | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Environment below the profile's."""
    owned: Mapping[str, str] = field(default_factory=dict)
    """Environment above everybody's."""


@dataclass(frozen=True)
class ServerSpec:
    """Everything that a launcher needs to start one server."""

    launch: str
    """Name of the launch, for the state that outlives the harness."""
    argv: Sequence[str]
    env: Mapping[str, str]
    port: int
    log_file: Path
    log_times_file: Path
    work_dir: Path
    """Current folder of the server: empty, and removed after it."""
    folders: Folders | None = None
    """What a launcher has to bring to where the server sees it; None where that is the same place."""
    session: str = ""
    lane: int = 0
    container_file: Path | None = None
    """Where a container's own description goes."""


class Server(Protocol):
    """A started server."""

    base_url: str
    started_ns: int
    """Monotonic time at which the system was asked to start it."""

    def effective_argv(self) -> tuple[str, ...] | None:
        """The command as the system shows it, or None where the process is gone."""

    def ended(self) -> Exit | None:
        """How it ended, or None while it runs.

        Raises:
            LaunchFailed: nobody can tell any more, because what runs it is gone (`ENGINE_STAGE`).
        """

    def host_pids(self) -> tuple[int, ...]:
        """Pids on this host of its first processes, above all others; empty where they are not to be seen."""

    def usage(self) -> dict[str, Usage]:
        """What each process of the server uses, by its `name:pid`; empty once it is gone."""

    def stop(self, grace_s: float) -> Exit:
        """Ask it to stop, wait, then end what is left of it. Safe to call twice."""

    def log_digest(self) -> tuple[str, int]:
        """SHA-256 and length of the log, hashed while it was written; after `stop` only."""

    def log_cpu_ns(self) -> int | None:
        """CPU time of the thread that read the log; None where it has not ended."""

    def container(self) -> ContainerFacts | None:
        """The container that it runs in, complete after `stop`; None for a process."""


class Launcher(Protocol):
    """Starts servers."""

    def view(self, folders: Folders) -> View:
        """How a server will see these, and where it is to listen.

        Raises:
            LaunchFailed: nobody can tell (`ENGINE_STAGE`).
        """

    def start(self, spec: ServerSpec) -> Server:
        """Start a server and return at once; readiness is another matter.

        Raises:
            LaunchFailed: nothing could be started.
        """

    def clean_up(self) -> list[str]:
        """End what an earlier harness of this user left behind; say what was ended."""
