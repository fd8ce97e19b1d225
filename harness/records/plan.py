"""What a session is to do, and who did it where: plan.json and run.json."""

from __future__ import annotations

import hashlib
from typing import Literal

from harness.config.model import Profile, Stack
from harness.records.base import SCHEMA_VERSION, Record
from harness.records.history import Calibration, Night
from harness.records.statistics import Past
from harness.words import Arm, Cache, Warmup


class PlannedLaunch(Record):
    """One server process to be, in the order in which its lane runs it."""

    ordinal: int
    """Place in the session, from 1; the launches of a lane run in this order."""
    id: str
    """Name of the launch's folder, e.g. 007-candidate-mtp1-engine-cold."""
    lane: int
    arm: Arm
    mode: str
    warmup: Warmup
    cache: Cache
    pair: int
    """Number of the pair within the cell, from 0; -1 for a burn-in launch."""
    look: int = 1
    """2 for a launch that is run only where the mode is inconclusive without it."""
    warm_from: str | None = None
    """The cold launch whose caches a warm one starts with a copy of."""
    trace: bool = False
    """The tracer runs inside the server: kernels are judged, and nothing else."""
    again_of: str | None = None
    """The launch in whose place this one is measured; run only where that one's pair is void."""
    turn: int = 0
    """1 and 2 for such a launch: it follows the pair, whose last ordinal it bears."""

    @property
    def burn_in(self) -> bool:
        """Recorded, but never measured against anything."""
        return self.pair < 0 and not self.trace

    @property
    def place(self) -> tuple[int, int]:
        """In the order of its lane: a pair that is run once more follows the pair, in the pair's own order."""
        return self.ordinal, self.turn

    @property
    def measured(self) -> bool:
        """One of a cell's launches, and not a burn-in or a trace."""
        return self.pair >= 0 and not self.trace


class Plan(Record):
    """What a session will do, frozen before the first launch (plan.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    session: str
    profile: Profile
    control: Stack
    candidate: Stack
    smoke: bool
    seed: int
    launches: tuple[PlannedLaunch, ...]
    reruns: tuple[PlannedLaunch, ...] = ()
    """For each measured launch the one that takes its place, should its pair be void."""
    estimate_s: float
    primary_metrics: tuple[str, ...]
    """`mtp1 decode steps 2048`: what decides, in every warm cell of the mode."""
    looks: int = 1
    """2 where an inconclusive session may be continued: each look then has a smaller error."""
    history: tuple[Past, ...] = ()
    calibration: Calibration | None = None
    """What is known of this host's false alarms; None where no history was asked."""
    night: Night | None = None
    """Of a nightly session: its date, its anchor, and the nights before; None for every other one."""
    measurement: int = 1
    """MEASUREMENT_VERSION of the harness that measured."""
    challenge: str = ""
    """A reviewer's text, which the prompts follow from too: the run is not older than it. '' = none was given."""

    @property
    def prompt_seed(self) -> int:
        """What every prompt follows from: the seed, and the challenge where there is one."""
        if not self.challenge:
            return self.seed
        return int.from_bytes(hashlib.sha256(f"challenge/1/{self.seed}/{self.challenge}".encode()).digest(), "big")

    @property
    def possible(self) -> tuple[PlannedLaunch, ...]:
        """Every launch that may run, in the order of the lanes: those that take a void pair's place too."""
        return tuple(sorted((*self.launches, *self.reruns), key=lambda x: (x.lane, x.place)))

    def stack(self, arm: Arm) -> Stack:
        """The stack of an arm."""
        return self.control if arm is Arm.CONTROL else self.candidate


class Origin(Record):
    """The harness that measured: commit, cleanliness, and the packages that it ran with."""

    version: str
    commit: str | None
    """40 hex digits, or None where the harness is no git checkout."""
    dirty: bool | None
    """True when files differed from the commit; None where git could not say."""
    packages: dict[str, str]
    """Installed version of every package in the harness's environment."""


class HostFacts(Record):
    """The machine, without anything that names it."""

    system: str
    processor: str
    cores: int
    memory_mib: int
    gpus: tuple[str, ...]
    id: str | None = None
    """Drawn at random once per host, so that two of one class are not taken for one; None where none could be kept."""


class Signer(Record):
    """The host's key, its public half."""

    key_id: str
    """As signatures name it: 64 hex digits."""
    public: str
    """PEM."""


class Run(Record):
    """Identity of a session (run.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    session: str
    started_wall: str
    ended_wall: str | None = None
    harness: Origin
    host: HostFacts
    selection: str
    """The suites' selection (-k, -m) in the words of pytest; '' = everything."""
    interrupted: str | None = None
    """Why the session ended before its plan did, or None."""
    signer: Signer | None = None
    """Who signs the statements, known before the first launch; None = nobody, they are unsigned."""
