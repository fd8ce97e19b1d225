"""Ownership: every container and network of ours says by labels whose it is, and nothing else is ever removed."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from harness.launch.state import process_lives, this_process_started

PREFIX = "qualify."
MARKER = f"{PREFIX}marker"
LAUNCH = f"{PREFIX}launch"
WORK_DIR = f"{PREFIX}work-dir"


def new_labels(session: str, lane: int, launch: str, work_dir: Path) -> dict[str, str]:
    """Labels of what one launch creates; its marker is one that nothing else carries."""
    return {
        f"{PREFIX}session": session,
        f"{PREFIX}lane": str(lane),
        LAUNCH: launch,
        MARKER: uuid.uuid4().hex,
        WORK_DIR: str(work_dir),
        **_owner(),
    }


def is_abandoned(labels: Mapping[str, str]) -> bool:
    """True where the harness that made it is certainly gone; the rule of `harness.launch.state`.

    An engine serves several users, and harnesses that run in containers of their own: what belongs
    to another user, or to a process that cannot be looked for from here, is left alone.
    """
    try:
        pid, started = int(labels[f"{PREFIX}owner-pid"]), int(labels[f"{PREFIX}owner-started"])
        uid, boot, space = (labels[f"{PREFIX}owner-{part}"] for part in ("uid", "boot", "pid-namespace"))
    except (KeyError, ValueError):
        return False  # of another version, or not ours: never guess
    ours = _owner()
    if uid != ours[f"{PREFIX}owner-uid"]:
        return False
    if boot != ours[f"{PREFIX}owner-boot"]:
        return True  # no process outlives its machine, and containers do
    return space == ours[f"{PREFIX}owner-pid-namespace"] and not process_lives(pid, started)


@functools.cache
def _owner() -> dict[str, str]:
    """This process, so that a later harness can tell whether it is still there."""
    return {
        f"{PREFIX}owner-pid": str(os.getpid()),
        f"{PREFIX}owner-started": str(this_process_started()),
        f"{PREFIX}owner-uid": str(os.getuid()),
        f"{PREFIX}owner-boot": Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip(),
        f"{PREFIX}owner-pid-namespace": str(Path("/proc/self/ns/pid").readlink()),
    }
