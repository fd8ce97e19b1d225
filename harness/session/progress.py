"""Where a session stands, read from its bundle while it is being written."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

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
    done, failed, current = 0, [], []
    for launch in plan.launches:
        folder = bundle.launch(launch.id)
        if not folder.root.is_dir():
            continue
        ended = _field(folder.record_file, "end_ns") is not None
        if ended:
            done += 1
            if _field(folder.record_file, "status") == "failed":
                failed.append(launch.id)
        else:
            phase, since_ns = _last_mark(folder.timeline_file)
            current.append(Current(launch.id, phase, (time.monotonic_ns() - since_ns) / 1e9 if since_ns else 0.0))
    total = len(plan.launches)
    per_launch = elapsed_s / done if done else plan.estimate_s / total
    left = total - done if done else total - elapsed_s / per_launch
    return Snapshot(done, tuple(failed), total, tuple(current), max(0.0, per_launch * left))


def _field(path: Path, name: str) -> object:
    try:
        return json.loads(path.read_bytes()).get(name)
    except (OSError, ValueError):
        return None


def _last_mark(path: Path) -> tuple[str, int]:
    try:
        mark = json.loads(path.read_bytes().splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return "preparing", 0
    if mark["mark"] == "step begins":
        context = f" {mark['context_tokens']}" if mark.get("context_tokens") else ""
        return f"{mark['step']}{context}", mark["mono_ns"]
    return PHASES.get(mark["mark"], "between steps"), mark["mono_ns"]
