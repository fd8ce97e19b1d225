"""End what a killed harness left, and remove files that can be made again. Evidence is never removed."""

from __future__ import annotations

import shutil

from harness.errors import SetupFailure
from harness.launch.docker.address import socket_path
from harness.paths import work_root
from harness.session.opening import process_launcher


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
    from harness.launch.docker.cleaning import clean_up  # noqa: PLC0415  # the SDK, only where it is needed
    from harness.launch.docker.engine import connect  # noqa: PLC0415

    try:
        engine = connect()
    except SetupFailure as e:
        return [f"containers were not looked for: {e}"]
    removed = clean_up(engine)
    engine.close()
    return removed
