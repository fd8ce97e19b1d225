"""A container's processes as this host sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil

from harness.observe.sampler import Usage, usage


class HostProcesses:
    """The processes below a container's first one, which is docker-init.

    Read from /proc and not asked of the engine: a sample costs no request while speed is measured.
    """

    def __init__(self, container_id: str, init_pid: int) -> None:
        self._init = _process(init_pid) if _belongs(container_id, init_pid) else None

    def argv(self) -> tuple[str, ...] | None:
        """The server's command, as the kernel shows it; None where it is gone or not to be seen from here."""
        for process in self._below():
            with contextlib.suppress(psutil.Error):
                return tuple(process.cmdline()) or None
        return None

    def pids(self) -> tuple[int, ...]:
        """The first one's pid on this host; empty where it is not to be seen from here."""
        return () if self._init is None else (self._init.pid,)

    def usage(self) -> dict[str, Usage]:
        """What each of them uses; empty where there is none to be seen."""
        found: dict[str, Usage] = {}
        for process in self._below():
            with contextlib.suppress(psutil.Error):
                found.update([usage(process)])
        return found

    def _below(self) -> Iterator[psutil.Process]:
        if self._init is not None:
            with contextlib.suppress(psutil.Error):
                yield from self._init.children(recursive=True)


def _process(pid: int) -> psutil.Process | None:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid)
    return None


def _belongs(container_id: str, pid: int) -> bool:
    """Whether that process is the container's: in another pid namespace its number is somebody else's."""
    try:
        return container_id in Path(f"/proc/{pid}/cgroup").read_text("ascii")
    except OSError:
        return False
