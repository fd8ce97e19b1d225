"""Run one command in a container of an arm's image: no GPU, no network, nothing of the host but what it reads.

The container is a server's in all but that: the same settings, labels, output and end. What it can
write is its own folder, which is removed, and the report that is taken over from it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.checks.tree import INSTALLED, OUT, SOURCE, WORK, write_links, write_tree
from harness.config.image import Image
from harness.errors import SetupFailure
from harness.evidence.bundle import write_atomically
from harness.launch.docker import labels, settings
from harness.launch.docker.address import socket_path
from harness.launch.docker.engine import Engine, EngineError
from harness.launch.docker.launcher import DEFAULT_PATH
from harness.launch.docker.outcome import environment_of
from harness.launch.docker.server import DockerServer, remove
from harness.launch.docker.stream import ContainerOutput
from harness.launch.environment import server_environment
from harness.launch.launcher import WORK_DIR_PREFIX, Folders, LaunchFailed, ServerSpec
from harness.records import ContainerFacts, Exit
from harness.stack.record import LockedComponent

OUTPUT_LIMIT_BYTES = 64 << 20
REPORT_LIMIT_BYTES = 64 << 20
GRACE_S = 2.0
POLL_S = 0.05
PIDS_LIMIT = 4096
"""Far above what a test run needs, far below what a fork bomb takes of the host."""

OWN_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
"""Both arms alike: some suites name their tests by the order of a set."""


@dataclass(frozen=True)
class Task:
    """One command to run."""

    session: str
    name: str
    image: Image
    command: tuple[str, ...]
    folder: str
    layers: tuple[Mapping[str, str], ...]
    """Environment, the later one wins."""
    component: LockedComponent
    archive: Path | None
    """The lock's archive with what is not installed; it is mounted read-only below /qualify/source."""
    timeout_s: float
    output_file: Path
    output_times_file: Path
    container_file: Path
    report_file: Path | None


@dataclass(frozen=True)
class Ran:
    """How it went; the fields of `CheckRun`."""

    env: Mapping[str, str]
    exit: Exit | None = None
    container: ContainerFacts | None = None
    stopped: str | None = None
    fault: str | None = None
    output_sha256: str | None = None
    output_bytes: int | None = None
    report_sha256: str | None = None
    report_fault: str | None = None


def run_task(engine: Engine, task: Task) -> Ran:
    """Run it to its end, or to the end of its time, and remove all that it leaves."""
    root = Path(tempfile.mkdtemp(prefix=WORK_DIR_PREFIX))
    try:
        for name in ("work/home", "out", f"source/{task.component.name}", f"installed/{task.component.name}"):
            (root / name).mkdir(parents=True)
        return _run(engine, task, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def container_config(
    task: Task, root: Path, env: Mapping[str, str], owned: Mapping[str, str], *, remaps_users: bool
) -> dict[str, Any]:
    """The body of the engine's "create a container".

    Raises:
        SetupFailure: what the profile mounts is missing.
    """
    internal = task.image.model_copy(update={"network": "internal", "ipc": "private", "cdi": False})
    config = settings.container_config(
        internal,
        name=task.image.reference,
        entrypoint=task.command[:1],
        arguments=task.command[1:],
        environment=env,
        folders=Folders("none/of-it", root / "work", root / "work"),
        network="none",
        labels=owned,
        user=f"{os.getuid()}:{os.getgid()}",
        remaps_users=remaps_users,
        engine_socket=socket_path(),
    )
    del config["NetworkingConfig"]  # it has a loopback interface, and no other
    config["WorkingDir"] = task.folder
    mounts = (
        (root / "work", WORK, False),
        (root / "out", OUT, False),
        (root / "source", SOURCE, True),
        (root / "installed", INSTALLED, True),
    )
    config["HostConfig"] |= {
        "PidsLimit": PIDS_LIMIT,
        "Mounts": [
            *({"Type": "bind", "Source": str(s), "Target": t, "ReadOnly": read_only} for s, t, read_only in mounts),
            *settings.extra_mounts(task.image.mounts, socket_path()),
        ],
    }
    return config


def _run(engine: Engine, task: Task, root: Path) -> Ran:
    env: Mapping[str, str] = {}
    container = None
    try:
        write_links(task.component, root / "installed" / task.component.name)
        if task.archive is not None:
            write_tree(task.archive, task.component, root / "source" / task.component.name)
        image = engine.image(task.image.reference)
        env = _environment(task, environment_of(image).get("PATH", DEFAULT_PATH))
        owned = labels.new_labels(task.session, 0, task.name, root)
        config = container_config(task, root, env, owned, remaps_users=engine.remaps_users)
        container = engine.create(config)
        output = ContainerOutput(engine.attach(container))
    except (EngineError, SetupFailure) as e:
        remove(engine, container, None)
        return Ran(env, fault=f"no container can be made: {e}")
    except BaseException:  # Ctrl-C
        remove(engine, container, None)
        raise
    server = DockerServer(engine, container, network=None, image=image, output=output, spec=_spec(task, env, root))
    fault = stopped = None
    try:
        server.begin()
        stopped = _wait(server, task)
    except (EngineError, LaunchFailed) as e:
        fault = e.reason if isinstance(e, LaunchFailed) else f"the container cannot be started: {e}"
    finally:
        exit_ = server.stop(GRACE_S)
    digest, size = server.log_digest()
    report_sha256, report_fault = _take_over(root / "out", task.report_file)
    if server.log_write_error is not None:
        fault = fault or f"its output could not be kept: {server.log_write_error.strerror}"
    return Ran(
        env=env,
        exit=exit_,
        container=server.container(),
        stopped=stopped,
        fault=fault,
        output_sha256=digest,
        output_bytes=size,
        report_sha256=report_sha256,
        report_fault=report_fault,
    )


def _wait(server: DockerServer, task: Task) -> str | None:
    """Until it has ended by itself, or why it must be stopped."""
    deadline = time.monotonic() + task.timeout_s
    while server.ended() is None:
        if time.monotonic() > deadline:
            return f"it did not end within {task.timeout_s:g} s"
        if _size(task.output_file) > OUTPUT_LIMIT_BYTES:
            return f"it printed more than {OUTPUT_LIMIT_BYTES >> 20} MiB"
        time.sleep(POLL_S)
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # the thread that writes it may begin later
        return 0


def _take_over(folder: Path, target: Path | None) -> tuple[str | None, str | None]:
    """Copy the tool's report into the bundle: its SHA-256, or why there is none.

    A stranger's code wrote it: a link would be followed on this host, and a pipe would be read for ever.
    """
    if target is None:
        return None, None
    try:
        descriptor = os.open(folder / target.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None, "what it left is no file"
            data = stream.read(REPORT_LIMIT_BYTES + 1)
    except FileNotFoundError:
        return None, "it left none"
    except OSError as e:
        return None, f"what it left cannot be read: {e.strerror}"
    if len(data) > REPORT_LIMIT_BYTES:
        return None, f"it is longer than {REPORT_LIMIT_BYTES >> 20} MiB"
    write_atomically(target, data)
    return hashlib.sha256(data).hexdigest(), None


def _environment(task: Task, path: str) -> dict[str, str]:
    work = Path(WORK)
    return server_environment(
        engine=task.command[0],
        home=work / "home",
        temporary=work,
        caches=work / "caches",
        layers=(
            settings.default_environment(task.command[0], path),
            OWN_ENVIRONMENT,
            *task.layers,
            settings.owned_environment(task.image, ()),
        ),
    )


def _spec(task: Task, env: Mapping[str, str], root: Path) -> ServerSpec:
    return ServerSpec(
        launch=task.name,
        argv=task.command,
        env=env,
        port=settings.PORT,
        log_file=task.output_file,
        log_times_file=task.output_times_file,
        work_dir=root,
        session=task.session,
        container_file=task.container_file,
    )
