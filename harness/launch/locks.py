"""Locks that keep two launches from the same resource, whoever planned them."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from harness.errors import SetupFailure


def lane_lock(resources: tuple[str, ...], wait_s: float) -> list[FileLock]:
    """Hold a lock per resource (a GPU's UUID, or a CPU lane), taken in sorted order.

    pytest-xdist promises that a group stays in one worker; a release of pytest broke that promise
    silently, so the operating system holds it too. The locks go when this process does.

    Raises:
        SetupFailure: another process holds one of them for longer than `wait_s`.
    """
    folder = Path(tempfile.gettempdir()) / "qualify-locks"
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(PermissionError):  # another user's, who opened it to us in the same way
        folder.chmod(0o777)  # mkdir's mode goes through the umask
    held: list[FileLock] = []
    for resource in sorted(resources):
        lock = FileLock(folder / f"{hashlib.sha256(resource.encode()).hexdigest()[:32]}.lock", mode=0o666)
        try:
            lock.acquire(timeout=wait_s)
        except Timeout:
            for other in held:
                other.release()
            raise SetupFailure(f"{resource} is in use by another launch; wait for it, or use another lane") from None
        held.append(lock)
    return held
