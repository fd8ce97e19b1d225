"""End what a killed harness left, and remove files that can be made again. Evidence is never removed."""

from __future__ import annotations

import shutil

from harness.errors import SetupFailure
from harness.launch.docker.address import socket_path
from harness.paths import work_root
from harness.session.launchers import process_launcher, remove_abandoned_containers


def clean(*, models: bool, caches: bool) -> list[str]:
    """Clean up; return what was done, one line each."""
    done = process_launcher().clean_up() + _containers()
    for wanted, name in ((models, "models"), (caches, "caches")):
        folder = work_root() / name
        if wanted and folder.is_dir():
            shutil.rmtree(folder)
            done.append(f"removed {folder}")
    return done


def _containers() -> list[str]:
    """What is left in containers, where there is an engine that this user may ask."""
    if not socket_path().exists():
        return []
    try:
        return remove_abandoned_containers()
    except SetupFailure as e:
        return [f"containers were not looked for: {e}"]
