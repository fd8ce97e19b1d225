"""Remove what a dead harness left on the engine: by its labels alone, never by name, never by pruning."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from harness.errors import SetupFailure
from harness.launch.docker import labels
from harness.launch.docker.engine import Engine, EngineError, Found, Missing
from harness.launch.launcher import WORK_DIR_PREFIX


def clean_up(engine: Engine) -> list[str]:
    """Remove containers, then networks, whose harness is certainly gone; say what was removed.

    Raises:
        SetupFailure: the engine refuses.
    """
    removed = []
    try:
        for found in _abandoned(engine.containers(labels.MARKER)):
            with contextlib.suppress(Missing):  # another session cleans up at the same time
                engine.remove(found.id)
                removed.append(_line(found, "container"))
            _remove_work_dir(found)
        for found in _abandoned(engine.networks(labels.MARKER)):
            with contextlib.suppress(Missing):
                engine.remove_network(found.id)
                removed.append(_line(found, "network"))
    except EngineError as e:
        raise SetupFailure(f"cannot remove what an earlier session left: {e}") from e
    return removed


def _abandoned(found: list[Found]) -> list[Found]:
    return [x for x in found if labels.is_abandoned(x.labels)]


def _line(found: Found, kind: str) -> str:
    return f"{found.labels.get(labels.LAUNCH)}: {kind} {found.id[:12]} of a harness that is gone"


def _remove_work_dir(found: Found) -> None:
    """The folder that the dead harness would have removed itself."""
    folder = Path(found.labels.get(labels.WORK_DIR, ""))
    if folder.name.startswith(WORK_DIR_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
