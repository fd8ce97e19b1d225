"""What has become of a visit's steps, in a file: it outlives the machine, so that the next visit goes on from there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path


class Status(StrEnum):
    """Where a step stands."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    BROKEN = "broken"
    """It ended with a code that is no result."""
    CUT_OFF = "cut off"
    """The machine or its time was gone before it ended; the next visit begins it again."""
    NO_TIME = "no time"
    """Less time was left than it takes: the next visit's."""


@dataclass
class Progress:
    """One step."""

    name: str
    status: Status = Status.WAITING
    began_s: float | None = None
    """Seconds since 1970."""
    took_s: float | None = None
    code: int | None = None
    bundle: str | None = None
    """Name of the session's folder."""

    @property
    def is_open(self) -> bool:
        """True where the next visit has to take it up."""
        return self.status in (Status.WAITING, Status.RUNNING, Status.CUT_OFF, Status.NO_TIME)


@dataclass
class State:
    """All steps of a plan, in its order."""

    file: Path
    steps: dict[str, Progress] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> State:
        """What the file says; nothing, where there is none."""
        tree = json.loads(file.read_text("utf-8")) if file.is_file() else {"steps": []}
        steps = [Progress(**(entry | {"status": Status(entry["status"])})) for entry in tree["steps"]]
        return cls(file, {step.name: step for step in steps})

    def resumed(self, names: list[str]) -> State:
        """The same for the steps of a plan; what an earlier visit left open waits again."""
        closed = {name: step for name, step in self.steps.items() if not step.is_open}
        return State(self.file, {name: closed.get(name, Progress(name)) for name in names})

    def write(self) -> None:
        """Keep it; a reader never sees half of it."""
        partial = self.file.with_suffix(".partial")
        partial.write_text(json.dumps({"steps": [asdict(s) for s in self.steps.values()]}, indent=1) + "\n", "utf-8")
        partial.replace(self.file)

    def lines(self) -> list[str]:
        """One line per step, for a person."""
        return [
            f"{s.status:8} {s.name:24} {'' if s.took_s is None else f'{s.took_s:5.0f} s'}"
            f"{'' if s.code is None else f'  exit code {s.code}'}{'' if s.bundle is None else f'  {s.bundle}'}".rstrip()
            for s in self.steps.values()
        ]
