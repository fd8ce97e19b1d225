"""Who measured and where: the harness's own commit and packages, and the host without its name."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import uuid
from pathlib import Path

import psutil

from harness import __version__
from harness.paths import PROJECT, state_root
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
    """The machine's class, and its random id: enough to refuse a comparison across hosts, nothing that names it."""
    return HostFacts(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_mib=psutil.virtual_memory().total >> 20,
        gpus=gpus,
        id=host_id(),
    )


def host_id() -> str | None:
    """This host's random id, drawn on first use; None where the state folder cannot be written.

    Noise belongs to one machine, not to its class. What lies in the state folder is no secret and names nobody.
    """
    file = state_root() / "host-id"
    try:
        return _known_id(file) or _drawn_id(file)
    except OSError:
        return None


def _known_id(file: Path) -> str | None:
    text = file.read_text("ascii", "replace").strip() if file.is_file() else ""
    return text if re.fullmatch(r"[0-9a-f]{32}", text) else None


def _drawn_id(file: Path) -> str | None:
    """Written whole under another name and then linked: of two first sessions at once, both take the same one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists():  # empty or of no use
        file.unlink()
    drawn = file.with_name(f".host-id.{os.getpid()}")
    drawn.write_text(f"{uuid.uuid4().hex}\n", "ascii")
    try:
        file.hardlink_to(drawn)
    except FileExistsError:
        pass
    finally:
        drawn.unlink()
    return _known_id(file)


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
