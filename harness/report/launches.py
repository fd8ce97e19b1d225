"""What both reports say about the launches: how each went, what failed, what it ran with."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.proof import cache_proof
from harness.judge.read import LaunchEvidence
from harness.launch.logpipe import tail
from harness.observe.log import Kind
from harness.records import Exit, LaunchRecord, Lock, PlannedLaunch
from harness.report.text import last_component
from harness.words import Arm, LaunchStatus

RESOLVED = (
    Kind.RUNNER, Kind.ATTENTION, Kind.MOE, Kind.ALL_REDUCE, Kind.SCHEDULED_TOKENS, Kind.GRAPHS, Kind.JIT_ARMED
)  # fmt: skip
"""Log lines in which the engine says what it chose."""

RESOLVED_LINES = 12
NOT_RECORDED = "not recorded"
NO_END = "its record has no end: the harness was gone before"


@dataclass(frozen=True)
class LaunchLine:
    """One launch of the table; what was not obtained is None."""

    planned: PlannedLaunch
    status: str
    exit: str | None = None
    seconds: float | None = None
    log_sha256: str | None = None
    log_bytes: int | None = None
    cache_proven: str | None = None
    command: str | None = None
    container: str | None = None
    """Identity of its container; None for a process."""
    resolved: tuple[tuple[str, str], ...] = ()
    """Lines of the log with their place."""


@dataclass(frozen=True)
class Failure:
    """A launch that did not end as it should."""

    launch: str
    status: str
    stage: str
    reason: str
    exit: str
    log_tail: str
    source: str


def launch_lines(case: Case) -> list[LaunchLine]:
    """Every planned launch, started or not, in the order of the plan."""
    return [_line(planned, case.launches[planned.id]) for planned in in_order(case)]


def in_order(case: Case) -> list[PlannedLaunch]:
    """Launches in run order."""
    return sorted(case.plan.launches, key=lambda x: x.place)


def failures(case: Case) -> list[Failure]:
    """Launches that failed or were interrupted, in run order."""
    found = []
    for planned in in_order(case):
        record = case.launches[planned.id].record
        if record is None or record.status is LaunchStatus.COMPLETED:
            continue
        found.append(
            Failure(
                launch=planned.id,
                status=str(record.status),
                stage=record.stage or NOT_RECORDED,
                reason=record.reason or (NOT_RECORDED if record.end_ns else NO_END),
                exit=exit_text(record.exit) or NOT_RECORDED,
                log_tail=record.log_tail or _log_tail(case.launches[planned.id]),
                source=f"launches/{planned.id}/launch.json",
            )
        )
    return found


def _log_tail(launch: LaunchEvidence) -> str:
    """Of a launch that was interrupted no record keeps the last lines, but its log does."""
    file = launch.folder.log_file
    return tail(file) if file.is_file() else ""  # a stranger's bundle may hold a pipe


def exit_text(exit_: Exit | None) -> str | None:
    """`exit code 0, asked`; None where the end was not seen."""
    if exit_ is None:
        return None
    parts = [exit_.how, "asked" if exit_.asked else "by itself"]
    if exit_.survivors_killed:
        parts.append(f"{exit_.survivors_killed} survivors killed")
    return ", ".join(parts)


def model_text(lock: Lock) -> str:
    """What was served, by name and hash, without where it lies on the host."""
    digest = lock.model_sha256.get("model.safetensors")
    name = "forged model" if lock.known_answers else last_component(lock.model)
    return f"{name}, model.safetensors sha256 {digest[:12]}" if digest else name


def harness_text(case: Case) -> tuple[str, str | None]:
    """The harness's version and commit, and what is wrong with that identity, or None."""
    origin = case.run.harness
    if origin.commit is None:
        return origin.version, "no commit: the harness was no git checkout, so its code is not identified"
    if origin.dirty is None:
        return f"{origin.version}, commit {origin.commit}", "unknown whether files differed from that commit"
    return (
        f"{origin.version}, commit {origin.commit}",
        "dirty: files differed from that commit" if origin.dirty else None,
    )


def stack_differences(case: Case, arm: Arm) -> list[str]:
    """How an arm differs from the profile, as `key = value`."""
    stack = case.plan.stack(arm)
    found = [f"--{name} {value}" for name, value in stack.serve.flags.items()]
    found += [f"{name}={value}" for name, value in stack.serve.env.items()]
    found += [f"forge {name} = {value}" for name, value in stack.forge.items()]
    if stack.model_path:
        found.append(f"model {last_component(stack.model_path)}")
    return found


def _line(planned: PlannedLaunch, launch: LaunchEvidence) -> LaunchLine:
    record = launch.record
    if record is None:
        return LaunchLine(planned, LaunchStatus.NOT_STARTED)
    return LaunchLine(
        planned=planned,
        status=_status(record),
        exit=exit_text(record.exit),
        seconds=None if record.end_ns is None else (record.end_ns - record.begin_ns) / 1e9,
        log_sha256=record.log_sha256,
        log_bytes=record.log_bytes,
        cache_proven=cache_proof(launch).proof,
        command=shlex.join(record.effective_argv or record.argv),
        container=_container(record),
        resolved=tuple(
            (launch.place(e), e.text) for kind in RESOLVED for e in launch.of_kind(kind) if launch.before_ready(e)
        )[:RESOLVED_LINES],
    )


def _status(record: LaunchRecord) -> str:
    return f"{record.status} at {record.stage}" if record.stage else str(record.status)


def _container(record: LaunchRecord) -> str | None:
    facts = record.container
    if facts is None:
        return None
    gpus = f", GPUs {', '.join(facts.gpus)}" if facts.gpus else ""
    return f"image {facts.image_reference}, id {facts.image_id}, runtime {facts.runtime}, network {facts.network}{gpus}"
