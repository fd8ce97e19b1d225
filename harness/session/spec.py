"""What a launcher is handed: where a launch's server works, and the command and environment that it is started with."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from harness.evidence.bundle import LaunchDir
from harness.launch.environment import server_environment
from harness.launch.launcher import WORK_DIR_PREFIX, Folders, ServerSpec, View
from harness.launch.tracing import FOLDER, traced_environment
from harness.records import Plan, PlannedLaunch
from harness.session.compose import engine_command, environment_layers, server_argv


def work_folder(session: str, lane: int) -> Path:
    """An empty folder for a server: the same for all launches of a lane, which come one after the other.

    Paths enter some cache keys (vLLM 0.25.1 hashes VLLM_CONFIG_ROOT, which lies below HOME): with a
    folder per launch no warm launch would ever find what a cold one left.
    """
    name = hashlib.sha256(f"{session}/{lane}".encode()).hexdigest()[:8]  # short: vLLM makes UNIX sockets in it
    folder = Path(tempfile.gettempdir()) / f"{WORK_DIR_PREFIX}{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def server_spec(plan: Plan, launch: PlannedLaunch, view: View, folders: Folders, evidence: LaunchDir) -> ServerSpec:
    """The command and environment that name everything as the server sees it; makes what they name in its folder."""
    (folders.work / "home").mkdir()
    if launch.trace:
        (folders.work / FOLDER).mkdir()
    env = server_environment(
        engine=engine_command(plan.profile)[0],
        home=view.work / "home",
        temporary=view.work,
        caches=view.caches,
        layers=(view.defaults, *environment_layers(plan.profile, plan.stack(launch.arm), launch), view.owned),
    )
    if view.tracer is not None:
        env = traced_environment(env, tracer=view.tracer, work=view.work)
    return ServerSpec(
        launch=launch.id,
        argv=server_argv(plan, launch, view.model, view.port, view.host),
        env=env,
        port=view.port,
        log_file=evidence.log_file,
        log_times_file=evidence.log_times_file,
        work_dir=folders.work,
        folders=folders,
        session=plan.session,
        lane=launch.lane,
        container_file=evidence.container_file,
    )
