"""Where a session stands, read from its bundle while it is being written."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.evidence.bundle import Bundle
from harness.records import Plan

PHASES = {
    "process started": "starting",
    "health": "healthy",
    "model": "first request",
    "first request": "ready",
    "stop asked": "stopping",
    "stopped": "stopped",
}


@dataclass(frozen=True)
class Current:
    """A launch that is running."""

    launch: str
    phase: str
    since_s: float


@dataclass(frozen=True)
class Snapshot:
    """Progress of a session."""

    done: int
    failed: tuple[str, ...]
    total: int
    current: tuple[Current, ...]
    remaining_s: float
    """Estimate from the launches that have ended; from the plan before any has."""


def snapshot(bundle: Bundle, plan: Plan, elapsed_s: float) -> Snapshot:
    """Look at the bundle now."""
    failed: list[str] = []
    current: list[Current] = []
    ended_s: list[float] = []
    running_s: list[float] = []
    planned = [x for x in plan.launches if x.look == 1]
    extra = [x for x in plan.possible if x not in planned and bundle.launch(x.id).root.is_dir()]
    launches = [*planned, *extra]
    for launch in launches:
        folder = bundle.launch(launch.id)
        if not folder.root.is_dir():
            continue
        record = _fields(folder.record_file)
        begin_ns, end_ns = record.get("begin_ns"), record.get("end_ns")
        if end_ns is not None:
            ended_s.append((end_ns - begin_ns) / 1e9)
            if record["status"] == "failed":
                failed.append(launch.id)
        else:
            phase, since_ns = _last_mark(folder.timeline_file)
            current.append(Current(launch.id, phase, _since_s(since_ns)))
            running_s.append(_since_s(begin_ns))
    current += _running_checks(bundle)
    remaining_s = plan.estimate_s - elapsed_s
    if ended_s:
        mean_s = sum(ended_s) / len(ended_s)
        left_s = mean_s * (len(launches) - len(ended_s)) - sum(min(x, mean_s) for x in running_s)
        remaining_s = left_s / len({x.lane for x in plan.launches})
    return Snapshot(len(ended_s), tuple(failed), len(launches), tuple(current), max(0.0, remaining_s))


def _running_checks(bundle: Bundle) -> list[Current]:
    """Source checks that have begun in an arm and not ended."""
    begun = [folder for folder in sorted(bundle.checks_dir.glob("*/*")) if not (folder / "check.json").is_file()]
    return [Current(f"source check {x.parent.name}", x.name, max(0.0, time.time() - x.stat().st_mtime)) for x in begun]


def _since_s(time_ns: int | None) -> float:
    return (time.monotonic_ns() - time_ns) / 1e9 if time_ns else 0.0


def _fields(path: Path) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return fields


def _last_mark(path: Path) -> tuple[str, int]:
    try:
        mark = json.loads(path.read_bytes().splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return "preparing", 0
    if mark["mark"] == "step begins":
        context = f" {mark['context_tokens']}" if mark.get("context_tokens") else ""
        return f"{mark['step']}{context}", mark["mono_ns"]
    return PHASES.get(mark["mark"], "between steps"), mark["mono_ns"]
