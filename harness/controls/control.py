"""What a control is, as data: how its arms are made, and what the verdict must say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.config.flags import FlagValue
from harness.config.model import Profile
from harness.words import Word

Flags = Mapping[str, FlagValue]


class Engine(StrEnum):
    """What a control's servers are."""

    PROFILE = "the profile's engine"
    FAKE = "built-in fake server"
    FAKE_GPU = "built-in fake server and fake NVML"


@dataclass(frozen=True)
class Expected:
    """A row that the verdict must have: its name, its word, and what its reason must hold."""

    row: str
    word: Word
    told: tuple[str, ...] = ()

    def text(self) -> str:
        """`KV tokens: fail ("beyond the margin")`."""
        told = ", ".join(f'"{t}"' for t in self.told)
        return f"{self.row}: {self.word}{f' ({told})' if told else ''}"


@dataclass(frozen=True)
class Arms:
    """How a session's arms are made of a profile."""

    stack: str = ""
    """The candidate's stack, by its name in stacks/."""
    flags: Flags | Callable[[Profile], Flags] = field(default_factory=dict)
    """Flags of the candidate, in place of a stack; of a profile that is not ours they follow from its own."""
    faults: str = ""
    """Faults of the candidate (the fake server's)."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of the candidate."""
    both: Mapping[str, str] = field(default_factory=dict)
    """Environment of both arms."""
    settings: tuple[str, ...] = ()
    """Values of the profile, as `--set` takes them."""
    gpu: bool = False
    """On a GPU of the fake NVML."""


@dataclass(frozen=True)
class Control:
    """A candidate whose verdict is known."""

    name: str
    worse: str
    """What is wrong with the candidate; empty where nothing is, so that it must pass."""
    expects: tuple[Expected, ...]
    fake: Arms
    """On the built-in fake server: every control has such a twin."""
    forged: Arms | None = None
    """On the engine of a profile whose model is forged; None where a real engine cannot show it on demand."""
    served: Arms | None = None
    """On the engine of any other profile: by flags alone."""

    def on(self, profile: Profile | None) -> tuple[Arms, Engine]:
        """How it is made for a profile; without one, and where that profile's engine cannot show it, its twin."""
        own = None if profile is None else self.served if profile.model.forge is None else self.forged
        if own is not None:
            return own, Engine.PROFILE
        return self.fake, Engine.FAKE_GPU if self.fake.gpu else Engine.FAKE
