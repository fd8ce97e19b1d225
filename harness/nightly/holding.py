"""One night at a time on a host; who comes second is told who is first."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import datetime

from filelock import FileLock, Timeout

from harness.errors import SetupFailure
from harness.evidence.bundle import write_json
from harness.paths import state_root


@contextlib.contextmanager
def one_night() -> Iterator[None]:
    """Hold the host's night. The system lets go of it when this process ends, however it ends.

    Raises:
        SetupFailure: another process holds it; says which one, and since when.
    """
    folder = state_root()
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "nightly.json"
    lock = FileLock(folder / "nightly.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        by = _said(holder.read_text("utf-8") if holder.is_file() else "")
        raise SetupFailure(
            f"another nightly session runs on this host: {by}; wait for it, or stop it with Ctrl-C"
        ) from None
    try:
        write_json(holder, {"pid": os.getpid(), "since": datetime.now().astimezone().isoformat(timespec="seconds")})
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _said(text: str) -> str:
    try:
        found = json.loads(text)
        return f"process {found['pid']}, since {found['since']}"
    except (ValueError, KeyError, TypeError):
        return "it has just begun"
