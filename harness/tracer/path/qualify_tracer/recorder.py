"""One JSON line per event, in a file per process.

The file is opened, appended to with one write and closed for every line: no descriptor stays open that
a server could close and hand to somebody else, a line is whole or absent when the process is killed,
and a fork needs no care but the name of its file.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from . import surroundings

FORMAT = 1
"""Version of the lines, for the reader."""

NAME_CHARACTERS = 500
LINE_BYTES = 64 << 10
"""A longer line loses its signature and values, never its kernel."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)


class Recorder:
    """Writes what the hooks of one process see."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._hooks: dict[str, dict[str, Any]] = {}
        self._faults: set[str] = set()
        self.local = threading.local()
        """State of the hooks that belongs to one thread."""
        self.told: OrderedDict[Any, bool] = OrderedDict()
        """Kernels that one hook has told of and another one may see too."""
        self.sees_compiler = False
        self.tells_origin = False
        """Whether the hooks can tell a compilation from a load from disk."""
        self.tells_cute_origin = False
        """The same of the CuTe DSL."""

    # -- records ----------------------------------------------------------------------------------

    def begin_process(self, *, forked: bool) -> None:
        """Say that this process is traced."""
        self._write(
            {
                "record": "process",
                "format": FORMAT,
                "ppid": os.getppid(),
                "python": ".".join(map(str, sys.version_info[:3])),
                "forked": forked,
            }
        )

    def after_fork(self) -> None:
        """A fork has a file of its own, and the hooks of its parent."""
        with self.quietly("after_fork"):
            self._pid = os.getpid()
            self.local = threading.local()
            self.begin_process(forked=True)
            for state in list(self._hooks.values()):
                self._write(state)

    def hook(self, name: str, status: str, detail: str = "") -> None:
        """Say what became of a hook: absent, waiting, hooked or changed."""
        with self.quietly("hook"):
            state = {"record": "hook", "hook": name, "status": status, "detail": detail[:500]}
            self._hooks[name] = state
            self._write(state)

    def kernel(self, event: str, backend: str, kernel: str, begin: Mapping[str, Any], **fields: Any) -> None:
        """Write one event; `begin` is what `start` returned before it."""
        end_ns = time.monotonic_ns()
        record = {
            "record": "kernel",
            "event": event,
            "backend": backend,
            "kernel": plain(kernel, NAME_CHARACTERS),
            "begin_ns": begin["begin_ns"],
            "end_ns": end_ns,
            "thread": threading.current_thread().name,
            **surroundings.rank(),
            **surroundings.memory_change(begin["memory"], surroundings.memory()),
            **fields,
        }
        self._write(record)

    @staticmethod
    def start() -> dict[str, Any]:
        """The moment before an event, and the device's memory then."""
        memory = surroundings.memory()
        return {"begin_ns": time.monotonic_ns(), "memory": memory}

    @staticmethod
    def start_cheaply() -> dict[str, Any]:
        """The same without the memory, for what happens at every launch."""
        return {"begin_ns": time.monotonic_ns(), "memory": {}}

    @contextlib.contextmanager
    def quietly(self, place: str) -> Iterator[None]:
        """Keep our own faults from the server; each place tells of its first one."""
        try:
            yield
        except Exception as e:  # noqa: BLE001  # whatever it is, it is ours and not the server's
            if place not in self._faults:
                self._faults.add(place)
                with contextlib.suppress(Exception):
                    self._write({"record": "fault", "place": place, "error": f"{type(e).__name__}: {e}"[:500]})

    # -- the file ---------------------------------------------------------------------------------

    def _write(self, record: Mapping[str, Any]) -> None:
        pid = os.getpid()
        if pid != self._pid:  # a fork that ran no Python on its way (vfork, or a C library's fork)
            self._pid = pid
            self.begin_process(forked=True)
        whole = {**record, "pid": pid, "mono_ns": time.monotonic_ns()}
        line = _line(whole)
        if len(line) > LINE_BYTES:
            line = _line({k: v for k, v in whole.items() if not isinstance(v, (dict, list))} | {"shortened": True})
        with contextlib.suppress(OSError):  # a full or vanished folder is no fault of the server
            descriptor = os.open(os.path.join(self._folder, f"{pid}.jsonl"), _FLAGS, 0o644)  # noqa: PTH118
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


def _line(record: Mapping[str, Any]) -> bytes:
    # ASCII: whatever a kernel is called, a line is one line and valid.
    return json.dumps(record, default=plain, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"


def plain(value: object, limit: int = 120) -> Any:
    """A value as JSON: numbers and short text as they are, all else as its shortened repr."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else repr(value)  # noqa: PLR0124  # NaN
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001  # a stranger's repr
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
