"""The tracer's files, read back. They were written inside the server under test, so nothing in them is trusted.

A line that is torn, or not what the tracer writes, is counted and left out. A value that the tracer could
not read is None.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FORMAT = 1
"""The version of the tracer's lines that this module reads."""

NAME_CHARACTERS = 500
Name = Annotated[str, Field(max_length=NAME_CHARACTERS)]
Scalar = bool | int | float | Annotated[str, Field(max_length=1000)] | None
Table = Annotated[dict[Name, Scalar], Field(max_length=256)]

LIBRARIES = {
    "triton.compiler.compiler": "Triton",
    "triton.runtime.jit": "Triton",
    "triton.runtime.autotuner": "Triton",
    "cutlass.base_dsl.compiler": "CuTeDSL",
    "cutlass.base_dsl.dsl": "CuTeDSL",
    "cutlass.base_dsl.export.external_binary_module": "CuTeDSL",
    "cutlass.cute": "CuTeDSL",
    "tilelang.jit.kernel": "TileLang",
}
"""Hook -> the library, in the words of the engine's monitor."""


class TraceEvent(BaseModel):
    """One kernel that was compiled, loaded or tuned."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    event: Literal["compile", "load", "autotune"]
    """compile: made or read from disk, for its first use in this process; load: put onto the device."""
    backend: Name
    kernel: Name
    module: Name = ""
    begin_ns: int
    """CLOCK_MONOTONIC, the same clock as every mark of the timeline."""
    end_ns: int
    pid: int
    thread: Name = ""
    rank: int | None = None
    rank_from: Name = ""
    constexprs: Table = {}
    """By name, in the order of the kernel's parameters."""
    folded: Table = {}
    """Arguments that became part of the code since they were 1 or None."""
    signature: Table = {}
    options: Table = {}
    origin: Literal["compiled", "disk"] | None = None
    autotune: bool = False
    """A candidate of a tuning."""
    error: Name | None = None
    """What the compilation ended in."""
    device: int | None = None
    free_before_bytes: int | None = None
    free_after_bytes: int | None = None
    torch_allocated_peak_bytes: int | None = None
    torch_reserved_peak_bytes: int | None = None
    place: str = ""
    """File and line below the launch's folder."""

    @property
    def seconds(self) -> float:
        """Duration."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def taken_bytes(self) -> int | None:
        """Free memory of the device before minus after; None where either was not read."""
        if self.free_before_bytes is None or self.free_after_bytes is None:
            return None
        return self.free_before_bytes - self.free_after_bytes


@dataclass(frozen=True)
class Trace:
    """Everything that the processes of one launch wrote."""

    events: tuple[TraceEvent, ...]
    """In order of their begin."""
    hooks: tuple[tuple[int, str, str, str], ...]
    """Last word on each hook of each process: pid, hook, status, detail."""
    processes: tuple[int, ...]
    bad_lines: int = 0
    faults: tuple[str, ...] = ()
    """What went wrong inside the tracer itself."""

    @property
    def changed(self) -> list[str]:
        """Libraries whose hook did not fit, with what did not."""
        return list(dict.fromkeys(f"{hook}: {detail}" for _, hook, status, detail in self.hooks if status == "changed"))

    @property
    def hooked(self) -> list[str]:
        """Libraries that are hooked in some process."""
        return sorted({LIBRARIES.get(hook, hook) for _, hook, status, _ in self.hooks if status == "hooked"})

    @property
    def unseen(self) -> str | None:
        """Why this source cannot say that a kernel is not late, or None where it can."""
        if not self.processes:
            return "no process of the server was traced"
        if self.changed:
            return f"a hook does not fit this version: {'; '.join(self.changed)}"
        if self.faults:
            return f"the tracer failed: {'; '.join(self.faults)}"
        if self.bad_lines:
            return f"{self.bad_lines} lines of the tracer could not be read"
        if not self.hooked:
            states = Counter(f"{LIBRARIES.get(h, h)} {s}" for _, h, s, _ in self.hooks)
            return f"no kernel library was imported ({', '.join(sorted(states)) or 'no hook told of any'})"
        return None


def read_trace(folder: Path) -> Trace:
    """Read a launch's trace folder; a missing one is a trace of no process."""
    events: list[TraceEvent] = []
    hooks: dict[tuple[int, str], tuple[str, str]] = {}
    processes: dict[int, None] = {}
    faults: dict[str, None] = {}
    bad = 0
    for place, record in _records(folder):
        match record:
            case {"record": "process", "pid": int(pid), "format": format_} if format_ == FORMAT:
                processes[pid] = None
            case {"record": "hook", "pid": int(pid), "hook": str(hook), "status": str(status), "detail": str(detail)}:
                hooks[pid, hook[:NAME_CHARACTERS]] = status[:20], detail[:NAME_CHARACTERS]
            case {"record": "fault", "place": str(where), "error": str(error)}:
                faults[f"{where}: {error}"[:NAME_CHARACTERS]] = None
            case {"record": "kernel", **fields}:
                try:
                    events.append(TraceEvent.model_validate(fields | {"place": place}))
                except ValidationError:
                    bad += 1
            case _:
                bad += 1
    return Trace(
        events=tuple(sorted(events, key=lambda e: (e.begin_ns, e.place))),
        hooks=tuple((pid, hook, *state) for (pid, hook), state in hooks.items()),
        processes=tuple(processes),
        bad_lines=bad,
        faults=tuple(faults),
    )


def _records(folder: Path) -> Iterator[tuple[str, object]]:
    for path in sorted(folder.glob("*.jsonl")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as stream:
            yield from _parsed(f"{folder.name}/{path.name}", stream)


def _parsed(name: str, lines: Iterable[bytes]) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            continue  # the process was killed while it wrote
        try:
            yield f"{name}:{number}", json.loads(line)
        except (ValueError, RecursionError):
            yield f"{name}:{number}", None
