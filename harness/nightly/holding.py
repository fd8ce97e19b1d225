"""One night at a time on a host; who comes second is told who is first."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from harness.errors import SetupFailure
from harness.evidence.bundle import write_json
from harness.paths import state_root


@contextlib.contextmanager
def one_night() -> Iterator[None]:
    """Hold the host's night. The system lets go of it when this process ends, however it ends.

    Raises:
        SetupFailure: another process holds it; says which one, and since when. Or nothing can be held here.
    """
    folder = state_root()
    holder = folder / "nightly.json"
    lock = FileLock(folder / "nightly.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:  # an OSError too
        raise _held(holder) from None
    except OSError as e:
        raise SetupFailure(f"{folder} cannot be written ({e}); set XDG_STATE_HOME to a folder that can") from None
    try:
        write_json(holder, {"pid": os.getpid(), "since": datetime.now().astimezone().isoformat(timespec="seconds")})
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _held(holder: Path) -> SetupFailure:
    try:
        by = _said(holder.read_text("utf-8"))
    except OSError:  # not written yet, or gone already
        by = _said("")
    return SetupFailure(f"another nightly session runs on this host: {by}; wait for it, or stop it with Ctrl-C")


def _said(text: str) -> str:
    try:
        found = json.loads(text)
        return f"process {found['pid']}, since {found['since']}"
    except (ValueError, KeyError, TypeError):
        return "it has just begun"
