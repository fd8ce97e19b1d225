"""One check in one arm, from the lock to its record in the bundle."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.checks.container import Task, run_task
from harness.checks.record import CheckDir, CheckRun, Source
from harness.checks.tree import Locks, command_of, nothing_to_run, rootdir, source_of
from harness.config.checks import Check
from harness.config.image import Image
from harness.evidence.bundle import Bundle, write_record
from harness.launch.docker.engine import Engine
from harness.launch.environment import redacted
from harness.words import Arm


@dataclass(frozen=True)
class Bench:
    """What the checks of one session and one arm have in common."""

    bundle: Bundle
    session: str
    arm: Arm
    image: Image
    """The arm's own, by an identity that does not move."""
    layers: tuple[Mapping[str, str], ...]
    """Environment of the arm: it is a part of it, in a check as in a server."""
    archives: Mapping[str, Path]
    """Per component of the candidate's lock, what is not installed: both arms get the same tests."""


def run_check(engine: Engine, bench: Bench, check: Check, locks: Locks) -> CheckRun:
    """Run a check in one arm and write its record; one that is interrupted has none, and so no end.

    Raises:
        Exception: a fault of the harness, which stands in the record, too: other lanes wait for it.
    """
    folder = CheckDir(bench.bundle, check, bench.arm)
    folder.root.mkdir(parents=True, exist_ok=True)
    source = source_of(check, bench.arm, locks)
    start = _start(check, bench.arm).model_copy(
        update={
            "source": source,
            "command": command_of(check, source),
            "folder": check.folder or rootdir(check.component),
            "image": bench.image.reference,
        }
    )
    if why := _nothing(check, source, locks):
        return _write(folder, start, {"not_run": why})
    try:
        ran = run_task(engine, _task(bench, start, folder, locks))
    except Exception as e:
        _write(folder, start, {"fault": f"the harness failed: {type(e).__name__}: {e}"})
        raise
    ended = {field.name: getattr(ran, field.name) for field in dataclasses.fields(ran)}
    return _write(folder, start, ended | {"env": redacted(ran.env)})


def not_begun(bundle: Bundle, check: Check, arm: Arm, fault: str) -> CheckRun:
    """The record of a check that could not even be prepared."""
    return _write(CheckDir(bundle, check, arm), _start(check, arm), {"fault": fault})


def _start(check: Check, arm: Arm) -> CheckRun:
    wall = datetime.now(UTC).isoformat(timespec="milliseconds")
    return CheckRun(check=check, arm=arm, begin_ns=time.monotonic_ns(), begin_wall=wall, end_ns=0)


def _write(folder: CheckDir, start: CheckRun, ended: Mapping[str, object]) -> CheckRun:
    run = start.model_copy(update={**ended, "end_ns": time.monotonic_ns()})
    write_record(folder.record_file, run)
    return run


def _nothing(check: Check, source: Source, locks: Locks) -> str | None:
    if not any(locks.values()):
        return f"no patch of either arm touches {check.component}, or their stacks have no such component"
    return nothing_to_run(check, source)


def _task(bench: Bench, start: CheckRun, folder: CheckDir, locks: Locks) -> Task:
    check, candidate = start.check, locks[Arm.CANDIDATE]
    component = candidate or locks[Arm.CONTROL]
    assert component is not None, "without the component there is nothing to run"
    return Task(
        session=bench.session,
        name=f"check-{check.name}-{bench.arm}",
        image=bench.image,
        command=start.command,
        folder=start.folder,
        layers=bench.layers,
        component=component,
        archive=None if candidate is None else bench.archives[check.component],
        timeout_s=check.timeout_s,
        output_file=folder.output_file,
        output_times_file=folder.output_times_file,
        container_file=folder.container_file,
        report_file=folder.report_file,
    )
