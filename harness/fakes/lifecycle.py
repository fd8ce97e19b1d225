"""The life of the fake's process: start, serve, and an end on SIGTERM, with the faults of each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.fakes import log_lines, tracing
from harness.fakes.counters import Counters
from harness.fakes.engine import Engine
from harness.fakes.gpu_memory import GpuMemory
from harness.fakes.log_lines import Line, log, write
from harness.fakes.model import load_model
from harness.fakes.server import FakeServer
from harness.fakes.settings import Settings
from harness.fakes.workers import Workers

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
ORPHAN_S = 600
"""Life of an orphan that nobody finds, so that a test that dies leaves nothing for ever."""


def serve(settings: Settings) -> int:
    """Run a server until it is told to stop; returns the exit code.

    Raises:
        ConfigError: the model folder is no forged model.
    """
    log_lines.Speech.era, log_lines.Speech.torn = settings.era, settings.faults.hit("torn-log")
    # Blocked and then waited for, in all threads: a handler could interrupt the holder of a lock.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    awaited = () if settings.faults.hit("ignore-sigterm") else STOP_SIGNALS

    gpu = GpuMemory(os.environ, settings.faults)
    engine = Engine(settings, load_model(Path(settings.model)), Counters(settings), gpu)
    try:
        server = FakeServer(engine)  # vLLM takes its port first, too
    except OSError:
        write(traceback.format_exc().rstrip())
        return 1
    if settings.faults.hit("orphan-worker"):
        _start_orphan()
    stopped = _start(settings, server.server_activate, awaited, engine)
    if settings.faults.hit("die-at-start"):
        write(log_lines.start_failure())
        return 1
    if not stopped:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        signal.sigwait(awaited)
    _end(server, serving=not stopped)
    engine.workers.end()
    return 0


def _start(settings: Settings, listen: Callable[[], None], awaited: Iterable[int], engine: Engine) -> bool:
    """Write the log of a start, in its pace, and listen at its end; True when a signal cut it short."""
    began = time.monotonic()
    share = settings.start_s / 4

    def stopped_within(seconds: float) -> bool:
        return signal.sigtimedwait(awaited, seconds) is not None

    write("Triton is installed, but doesn't include CPU backend. Disabling Triton.")
    log(*log_lines.banner(settings))
    log(*log_lines.unknown_variables(os.environ))
    if settings.faults.hit("secret-in-log"):
        # Put together here, so that no scanner of this repository takes it for a real one.
        token = "hf_" + "aBcDeFgHiJkLmNoP" + "qRsTuVwXyZ01234567"
        log(Line("APIServer", "INFO", "api_utils.py:286", f"environment: HF_TOKEN={token}"))
    if stopped_within(share):
        return True
    log(log_lines.engine_banner(settings))
    engine_began = time.monotonic()
    if stopped_within(share):
        return True
    _start_workers(settings, engine)
    for line in log_lines.weights(settings):
        write(line) if isinstance(line, str) else log(line)
    engine.gpu.load()
    if stopped_within(share):
        return True
    if settings.faults.hit("die-at-start"):
        return False
    tracing.hooks(settings.faults, settings.ranks)
    tracing.warm_up(settings.faults, settings.ranks)
    engine.gpu.size_kv()
    log(*log_lines.kv_cache(settings))
    if stopped_within(max(0.0, began + settings.start_s - time.monotonic())):
        return True
    log(log_lines.engine_ready(settings, time.monotonic() - engine_began))
    log(*log_lines.serving(settings))
    write(f"INFO:     Started server process [{os.getpid()}]")
    write("INFO:     Waiting for application startup.")
    listen()
    write("INFO:     Application startup complete.")
    return False


def _start_workers(settings: Settings, engine: Engine) -> None:
    """Each speaks as `Worker` until it has its place among the ranks."""
    engine.workers = Workers(settings.worker_names)
    log_lines.Speech.workers = [("Worker", pid) for pid in engine.workers.pids]
    log(*log_lines.places(settings))
    log_lines.Speech.workers = list(zip(settings.worker_names, engine.workers.pids, strict=True))


def _start_orphan() -> None:
    """A worker that keeps the log's pipe open and that no SIGTERM reaches: blocked signals stay so across exec."""
    command = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({ORPHAN_S})", "VLLM::Worker"]
    worker = subprocess.Popen(command)
    log(Line("EngineCore", "INFO", "multiproc_executor.py:153", f"started VLLM::Worker pid {worker.pid}"))


def _end(server: FakeServer, *, serving: bool) -> None:
    """An orderly end: running requests are aborted."""
    server.stopping.set()
    log(*log_lines.shutdown())
    write("INFO:     Shutting down")
    if serving:
        server.shutdown()
    server.server_close()
    write("INFO:     Waiting for application shutdown.")
    write("INFO:     Application shutdown complete.")
    write(f"INFO:     Finished server process [{os.getpid()}]")
