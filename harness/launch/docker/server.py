"""A running container; see `Server`."""

from __future__ import annotations

import contextlib
import time

from harness.evidence.bundle import write_json
from harness.launch.docker.engine import Engine, EngineError, EngineGone, Json, Missing
from harness.launch.docker.outcome import FROM_OUTSIDE, address_of, as_evidence, exit_of, facts_of, is_running
from harness.launch.docker.processes import HostProcesses
from harness.launch.docker.stream import ContainerOutput
from harness.launch.launcher import LaunchFailed, ServerSpec
from harness.launch.logpipe import LogPipe
from harness.observe.sampler import Usage
from harness.records import ENGINE_STAGE, ContainerFacts, Exit

SETTLE_S = 5.0
"""The engine may count a container as running for this long after its output has ended; then it was cut off."""
POLL_S = 0.02
CUT_OFF = "the container runs, and the engine has stopped sending its output"
LOG_END_S = 10.0
NEVER_STARTED = "created"
HEAD_BYTES = 4096
NOWHERE = "http://127.0.0.1:1"
"""For a server that has ended before its address could be read: answers nobody, at once."""


class DockerServer:
    """A container whose output is being read; it is removed once its log and description are kept."""

    def __init__(
        self,
        engine: Engine,
        container: str,
        *,
        network: str | None,
        image: Json,
        output: ContainerOutput,
        spec: ServerSpec,
    ) -> None:
        self._engine = engine
        self._container = container
        self._network = network
        self._image = image
        self._output = output
        self._spec = spec
        self._pipe = LogPipe(output, spec.log_file, spec.log_times_file)
        self._inspect: Json | None = None
        self._processes: HostProcesses | None = None
        self._ended: Exit | None = None
        self._stopped: Exit | None = None
        self.started_ns = 0
        self.base_url = NOWHERE

    def begin(self) -> None:
        """Start the container, and find its processes and its address.

        Raises:
            EngineError: it cannot be started.
            LaunchFailed: it runs another image.
        """
        self.started_ns = time.monotonic_ns()
        self._engine.start(self._container)
        inspect = self._look()
        if inspect["Image"] != self._image["Id"]:
            found, expected = inspect["Image"], self._image["Id"]
            raise LaunchFailed(ENGINE_STAGE, f"the container runs image {found}, expected {expected}")
        self._processes = HostProcesses(self._container, inspect["State"]["Pid"])
        address = "127.0.0.1" if self._network is None else address_of(inspect, self._network)
        if address is not None:
            self.base_url = f"http://{address}:{self._spec.port}"

    def effective_argv(self) -> tuple[str, ...] | None:
        """See `Server.effective_argv`."""
        return self._processes.argv() if self._processes is not None else None

    def ended(self) -> Exit | None:
        """See `Server.ended`. Asks the engine only once the output has ended: nothing disturbs a measurement."""
        if self._stopped or self._ended:
            return self._stopped or self._ended
        if not self._pipe.finish(timeout_s=0):
            return None
        try:
            inspect = self._settled()
            if is_running(inspect):
                raise LaunchFailed(ENGINE_STAGE, CUT_OFF)
            exit_ = self._exit(inspect, asked=False)
        except EngineError as e:
            raise LaunchFailed(ENGINE_STAGE, _lost(e)) from e
        if exit_.error and exit_.error.startswith(FROM_OUTSIDE):
            raise LaunchFailed(ENGINE_STAGE, f"the container ended: {exit_.how}")
        self._ended = exit_
        return exit_

    def host_pids(self) -> tuple[int, ...]:
        """See `Server.host_pids`."""
        return self._processes.pids() if self._processes is not None else ()

    def usage(self) -> dict[str, Usage]:
        """See `Server.usage`."""
        return self._processes.usage() if self._processes is not None else {}

    def stop(self, grace_s: float) -> Exit:
        """Stop, keep log and description, remove; see `Server.stop`."""
        if self._stopped is not None:
            return self._stopped
        gone = False
        try:
            exit_ = self._stop(grace_s)
        except EngineError as e:
            # What has been written stays; the container is found by its labels once the engine is back.
            exit_, gone = Exit(code=None, signal=None, asked=False, error=_lost(e)), isinstance(e, EngineGone)
        self._output.close()
        self._pipe.finish(LOG_END_S)
        if not gone:
            remove(self._engine, self._container, self._network)
        self._stopped = exit_
        return exit_

    def log_digest(self) -> tuple[str, int]:
        """See `Server.log_digest`."""
        return self._pipe.digest()

    def log_cpu_ns(self) -> int | None:
        """See `Server.log_cpu_ns`."""
        return self._pipe.cpu_ns

    def container(self) -> ContainerFacts | None:
        """See `Server.container`."""
        if self._inspect is None:
            return None
        gpus = self._spec.folders.gpus if self._spec.folders is not None else ()
        return facts_of(self._inspect, self._image, engine_version=self._engine.version, gpus=gpus)

    @property
    def log_write_error(self) -> OSError | None:
        """Why the log file is incomplete, or None."""
        return self._pipe.write_error

    def _stop(self, grace_s: float) -> Exit:
        inspect = self._settled()
        asked = is_running(inspect)
        fault = CUT_OFF if asked and self._pipe.finish(timeout_s=0) else None
        if inspect["State"]["Status"] == NEVER_STARTED:
            self._output.close()  # else nobody ever would
        if asked:
            with contextlib.suppress(Missing):
                self._engine.stop(self._container, grace_s)
            if is_running(self._look()):
                self._engine.kill(self._container)
        if not self._pipe.finish(LOG_END_S):
            fault = "the container has ended, and its output has not"
        exit_ = self._exit(self._look(), asked=asked)
        fault = fault or self._output.fault
        return exit_.model_copy(update={"error": fault}) if fault else exit_

    def _settled(self) -> Json:
        """The container's description, once it agrees with its output: the output ends a moment before."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            inspect = self._look()
            if not is_running(inspect) or not self._pipe.finish(timeout_s=0) or time.monotonic() > deadline:
                return inspect
            time.sleep(POLL_S)

    def _exit(self, inspect: Json, *, asked: bool) -> Exit:
        head = b""
        with contextlib.suppress(OSError), self._spec.log_file.open("rb") as log:
            head = log.read(HEAD_BYTES)
        signals = self._engine.kill_signals(self._container)
        return exit_of(inspect, asked=asked, signals=signals, log_head=head)

    def _look(self) -> Json:
        """The container's description now, kept as evidence: the engine may be gone the next time."""
        self._inspect = self._engine.inspect(self._container)
        if self._spec.container_file is not None:
            # A full disk must not keep a container from being stopped; the launch's record meets it, too.
            with contextlib.suppress(OSError):
                write_json(self._spec.container_file, as_evidence(self._inspect))
        return self._inspect


def remove(engine: Engine, container: str | None, network: str | None) -> None:
    """Remove what a launch created; what cannot be removed now, a later clean-up finds by its labels."""
    if container is not None:
        with contextlib.suppress(EngineError):
            engine.remove(container)
    if network is not None:
        with contextlib.suppress(EngineError):
            engine.remove_network(network)


def _lost(error: EngineError) -> str:
    if isinstance(error, EngineGone):
        return f"{error}; start it again, and the next session removes what it still holds"
    if isinstance(error, Missing):
        return f"somebody removed the container: {error}"
    return f"the Docker engine refuses: {error}"
