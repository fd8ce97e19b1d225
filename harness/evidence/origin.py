"""Who measured and where: the harness's own commit and packages, and the host without its name."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import psutil

from harness import __version__
from harness.paths import PROJECT
from harness.records import HostFacts, Origin


def origin() -> Origin:
    """The harness as it runs now."""
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain") if commit else None
    packages = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    return Origin(
        version=__version__,
        commit=commit,
        dirty=None if status is None else bool(status),
        packages=dict(sorted(packages.items(), key=lambda item: item[0].lower())),
    )


def host_facts(gpus: tuple[str, ...] = ()) -> HostFacts:
    """The machine's class: enough to refuse a comparison across hosts, nothing that names it."""
    return HostFacts(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_mib=psutil.virtual_memory().total >> 20,
        gpus=gpus,
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _git(*arguments: str) -> str | None:
    """Output of a git command in the project, or None where there is no git or no checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(PROJECT), *arguments],  # noqa: S607  # whichever git the user has
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
