"""A process that uses the GPUs of the fake NVML, as its file in the fake's folder tells."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

SEEN_WAIT_S = 10.0


@dataclass(frozen=True)
class Registration:
    """What one process holds, and does to the GPU."""

    pid: int
    started: float
    """Its start in clock ticks since boot, so that a number that was given again is another process."""
    uuids: tuple[str, ...]
    used_mib: int
    compute: bool = True
    with_server: bool = False
    """True: it is there only while another process computes."""
    linger_s: float = 0.0
    """Its memory is held this much longer than it lives."""
    died: float | None = None
    more_mib: Mapping[str, int] = field(default_factory=dict)
    """By UUID: what it holds of that GPU beyond `used_mib`; negative for less."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """What it makes the GPU say: a `Field` by name, power_limit_w, xid, lost."""

    def write(self, folder: Path) -> None:
        """Put it into the fake's folder, in one step."""
        file = folder / "users" / f"{self.pid}.json"
        temporary = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")  # a sampler reads in two threads
        temporary.write_text(json.dumps({f.name: getattr(self, f.name) for f in fields(self)}), "utf-8")
        temporary.rename(file)

    def used_of(self, uuid: str) -> int:
        """What it holds of one GPU, in MiB."""
        return self.used_mib + self.more_mib.get(uuid, 0)

    def holds(self, folder: Path) -> bool:
        """Whether its memory is still taken; the moment of its death is noted by whoever looks first."""
        if alive(self):
            return True
        if self.died is None and self.linger_s:
            replace(self, died=time.monotonic()).write(folder)
        return self.linger_s > 0 and (self.died is None or time.monotonic() < self.died + self.linger_s)


def registrations(folder: Path) -> Iterator[Registration]:
    """Everybody who ever registered, in order of their pid."""
    for file in sorted((folder / "users").glob("*.json")):
        tree: dict[str, Any] = json.loads(file.read_bytes())
        yield Registration(**(tree | {"uuids": tuple(tree["uuids"])}))


def start_of(pid: int) -> float | None:
    """When a process started, None where there is none or it is a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in "ZX" else float(after_name[19])


def alive(user: Registration) -> bool:
    """Whether that very process still runs."""
    return start_of(user.pid) == user.started


def register(folder: Path, pid: int, uuids: tuple[str, ...], used_mib: int, **more: Any) -> Registration:
    """Let a running process use the GPUs."""
    started = start_of(pid)
    assert started is not None, f"no process {pid}"
    user = Registration(pid, started, uuids, used_mib, **more)
    user.write(folder)
    return user


def wait_until_seen(folder: Path, uuids: tuple[str, ...], readings: int = 2) -> bool:
    """Wait until the memory of each GPU was read that often from now on; False when nobody reads."""
    deadline = time.monotonic() + SEEN_WAIT_S
    files = [folder / "reads" / uuid for uuid in uuids]

    def sizes() -> list[int]:
        return [f.stat().st_size if f.is_file() else 0 for f in files]

    wanted = [size + readings for size in sizes()]
    while any(size < want for size, want in zip(sizes(), wanted, strict=True)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
