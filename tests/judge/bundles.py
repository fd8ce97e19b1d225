"""Whole bundles on disk, made through the real records: what a session leaves, without a server.

    judged = Session(tmp_path, WARM_TOO).candidate(where=WARM, kv_tokens=990_000).judge()
    assert judged.row("KV tokens", cache="warm").word is Word.FAIL

Without a change both arms are the same server, and everything about it follows from the model's rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from harness.config.load import load_profile
from harness.config.model import Forge, Profile, Stack
from harness.evidence.bundle import Bundle, write_json, write_record
from harness.forge.recipe import Recipe
from harness.forge.truth import truth_json
from harness.judge.verdict import judge
from harness.records import HostFacts, Lock, Origin, Plan, PlannedLaunch, Row, Run, Verdict
from harness.session.plan import make_plan
from harness.words import Arm, Cache, Step

CONTEXTS = (48, 96)
KV_TOKENS = 2_097_152
Kernel = tuple[str, Mapping[str, int]]
COURSE = (Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE, Step.IDENTITY)

SMALL: dict[str, object] = {
    "model.forge": {"seed": 1, "vocab": 24},
    "serve.flags.max-model-len": 256,
    "plan.modes": ["mtp1"],
    "plan.warmups": ["engine"],
    "plan.caches": ["cold"],
    "course.contexts": [{"prompt_tokens": c, "prefill_passes": 2, "decode_passes": 2} for c in CONTEXTS],
    "course.ladder": [{"prompt_tokens": 16}, {"prompt_tokens": 16, "concurrent": 2}],
    "course.decode_output_tokens": 30,
    "course.identity_prompts": 3,
    "course.identity_prompt_tokens": 16,
    "course.identity_output_tokens": 40,
}
"""The embedded profile, so small that a bundle takes milliseconds. 40 tokens meet each of the 24."""
TRACED: dict[str, object] = {"plan.trace": True}
WARM_TOO: dict[str, object] = {"plan.caches": ["cold", "warm"]}
COLD, WARM = {"cache": Cache.COLD}, {"cache": Cache.WARM}


@dataclass(frozen=True)
class Behaviour:
    """What a server does, and what became of its launch."""

    speed: float = 1.0
    """Factor on prefill and decode rates."""
    start_s: float = 10.0
    kv_tokens: int | None = KV_TOKENS
    """In /metrics; None where the version has no such label."""
    kv_log: int | None = None
    """In the log, where it differs from /metrics; 0 = no such line."""

    said_at_start: tuple[str, ...] = ()
    """Lines in which the engine names what it chose."""
    armed: bool = False
    """The engine says that its JIT monitor is armed."""
    late_kernels: tuple[str, ...] = ()
    """The monitor names them during the first long prompt."""
    late_compiles: int = 0
    """Compilations that the log names during the first long prompt."""
    late_loads: int = 0
    late_files: int = 0
    compiled: str = "as planned"
    """Lines of the start-up: hit and miss in their order, or none; as planned = miss when cold, hit when warm."""
    files_at_start: int | None = None
    """None = none when cold, five when warm."""
    kernel_files: tuple[int, int] = (0, 0)
    """Files of Triton before the start, and those written until readiness."""
    kernel_entry: object = (9, 1)
    """Bytes of a file of Triton and its time, or its bytes alone."""
    cache_files: Mapping[str, object] = field(default_factory=dict)
    """Files that are otherwise at readiness: written, or None = gone."""
    found_files: tuple[str, ...] = ()
    """Other files before the start."""
    listed_ready: bool = True
    listings: bool = True
    start_lines: tuple[str, ...] = ()
    """Text of the log after KV sizing, and before the monitor is armed."""
    late_lines: tuple[str, ...] = ()
    """Text of the log during the first long prompt."""

    traced: str = "hooked"
    """In a trace launch: what became of the tracer's hook; '' = no process was traced."""
    warmed: tuple[Kernel, ...] = ()
    """Kernels that the tracer sees before KV sizing: their name and constexprs."""
    prepared: tuple[Kernel, ...] = ()
    """After KV sizing, and before the monitor is armed."""
    served: tuple[Kernel, ...] = ()
    """During the first long prompt."""
    kernels_from: tuple[str, str] = ("Triton", "compiled")
    """Their library, and where it had them from."""
    trace_text: str = ""
    """More lines of the tracer's file."""

    begins: bool = True
    """False: the launch has no folder at all."""
    stage: str | None = None
    """The stage at which the launch failed."""
    interrupted: bool = False
    ends_after: int | None = None
    """Windows of the course after which the launch is over; None = all of them."""
    ended: bool = True
    """False: the harness died before it wrote the end."""
    early_s: float = 0.0
    """The launch begins this much before the one before has ended."""
    course: tuple[Step, ...] = COURSE
    contexts: tuple[int, ...] = CONTEXTS

    diverge: Mapping[str, int] | None = None
    """Window -> output token from which on the window's first output is another one."""
    ties_itself: str = ""
    """Window whose first output ends in another token, at a near tie."""
    empty: tuple[str, ...] = ()
    """Windows whose outputs were lost to a server that sent nothing, yet counted it."""
    lost: tuple[str, ...] = ()
    """Windows of which no output was recorded."""
    tie_nat: float = 11.0
    """Logprob gap of the two best candidates after the special token."""
    runner_up: int | None = None
    """The second best there, where it is not the other arm's answer."""
    drafter: Recipe | None = None
    """Drafts as another model would, while the truth stays."""

    burst: tuple[str, ...] = ()
    """Windows whose events the client read late, all at once."""
    client_cpu_share: float = 0.01
    """CPU time of the client's process over that of the window."""
    client_lag_ms: float | None = 0.1
    """None: its lateness was not measured."""
    one_by_one: bool = False
    """Several streams were asked for, and the client sent one request after the other."""
    slots: int | None = None
    """Requests that the server runs at a time, where it is not what was asked for."""
    short: tuple[str, ...] = ()
    """Windows whose first request got one token less."""
    http_500: tuple[str, ...] = ()
    faults: Mapping[str, str] | None = None
    """Window -> miscount, reset, no-scrape, prefix-hit, foreign, preemption, lost-draft, extra-draft."""
    errors: tuple[str, ...] = ()
    """Log lines of level ERROR during the first prompt."""
    errors_at_start: tuple[str, ...] = ()
    errors_after_stop: tuple[str, ...] = ()
    survivors: int = 0
    """Processes that had to be killed after the stop."""
    failed_checks: tuple[tuple[str, int | None, str], ...] = ()
    cut_log: bool = False
    """The disk was full before the log's last line."""
    untimed_log: bool = False
    clock_set: tuple[str, float] | None = None
    """A mark before which somebody set the wall clock, and by how many seconds."""
    first_scrape: str | None = None
    """Text of 001.prom, where it is not what the server said."""


@dataclass(frozen=True)
class _Change:
    """Fields that differ in launches of an arm that fit the filters."""

    arm: Arm
    filters: Mapping[str, object]
    fields: Mapping[str, Any]

    def fits(self, launch: PlannedLaunch) -> bool:
        return launch.arm is self.arm and all(getattr(launch, k) == v for k, v in self.filters.items())


class Session:
    """A session to be written: describe each arm, then `build` or `judge`."""

    def __init__(
        self,
        root: Path,
        overrides: Mapping[str, object] | None = None,
        *,
        control: Stack | None = None,
        candidate: Stack | None = None,
        forged: bool = True,
    ) -> None:
        self.root = root
        self.profile = small_profile(overrides)
        self.stacks = {Arm.CONTROL: control or stack("control"), Arm.CANDIDATE: candidate or stack("candidate")}
        self.interruption: str | None = None
        self.runs_again: frozenset[int] = frozenset()
        """Warm pairs that are run once more, whatever they came to."""
        self._forged = forged
        self._changes: list[_Change] = []

    def control(self, *, where: Mapping[str, object] | None = None, **fields: Any) -> Self:
        """Change the control's launches that have the fields of `where`."""
        self._changes.append(_Change(Arm.CONTROL, where or {}, fields))
        return self

    def candidate(self, *, where: Mapping[str, object] | None = None, **fields: Any) -> Self:
        """Change the candidate's launches that have the fields of `where`."""
        self._changes.append(_Change(Arm.CANDIDATE, where or {}, fields))
        return self

    def both(self, *, where: Mapping[str, object] | None = None, **fields: Any) -> Self:
        """Change both arms alike."""
        return self.control(where=where, **fields).candidate(where=where, **fields)

    def interrupted(self, why: str) -> Self:
        """The session ended before its plan did."""
        self.interruption = why
        return self

    def behaviour(self, launch: PlannedLaunch) -> Behaviour:
        """What the server of a launch does; later changes win."""
        found = Behaviour()
        for change in self._changes:
            if change.fits(launch):
                found = replace(found, **change.fields)
        return found

    def recipe(self, arm: Arm) -> Recipe:
        """The arm's forged model."""
        assert self.profile.model.forge is not None
        arguments = self.profile.model.forge.model_dump() | self.stacks[arm].forge
        return Recipe(**Forge.model_validate(arguments).model_dump())

    @property
    def plan(self) -> Plan:
        """The plan, as `qualify run` would freeze it."""
        return make_plan("a-session", self.profile, self.stacks[Arm.CONTROL], self.stacks[Arm.CANDIDATE])

    def build(self) -> Bundle:
        """Write the bundle."""
        from .engine import Clock
        from .simulated import write_launch

        bundle, plan = Bundle(self.root / "bundle"), self.plan
        write_record(bundle.plan_file, plan)
        write_record(bundle.run_file, run_record(self.interruption))
        for arm in Arm:
            write_record(bundle.lock_file(arm), lock_record(arm, known_answers=self._forged))
            if self._forged:
                write_json(bundle.truth_file(arm), truth_json(self.recipe(arm), {}))
        clocks = {lane: Clock() for lane in {x.lane for x in plan.launches}}
        again = [x for x in plan.reruns if x.cache is Cache.WARM and x.pair in self.runs_again]
        for launch in sorted((*plan.launches, *again), key=lambda x: x.place):
            behaviour = self.behaviour(launch)
            if behaviour.begins:
                write_launch(bundle, plan, launch, behaviour, self.recipe(launch.arm), clocks[launch.lane])
        return bundle

    def judge(self) -> Judged:
        """Write the bundle and judge it."""
        return Judged.of(self.build())


@dataclass(frozen=True)
class Judged:
    """A verdict, with its rows by name."""

    verdict: Verdict

    @classmethod
    def of(cls, bundle: Bundle) -> Self:
        """Judge a bundle as it is now."""
        return cls(judge(bundle))

    def rows(self, name: str, **where: object) -> list[Row]:
        """Rows of a name, narrowed by fields."""
        rows = [r for r in self.verdict.rows if r.name == name]
        return [r for r in rows if all(getattr(r, field) == value for field, value in where.items())]

    def row(self, name: str, **where: object) -> Row:
        """The only such row."""
        [row] = self.rows(name, **where)
        return row

    def words(self) -> dict[str, set[str]]:
        """Word -> names of the rows that carry it."""
        found: dict[str, set[str]] = {}
        for row in self.verdict.rows:
            found.setdefault(row.word, set()).add(row.name)
        return found


def small_profile(overrides: Mapping[str, object] | None = None) -> Profile:
    """The embedded profile, made small, with values by their dotted keys."""
    values = SMALL | dict(overrides or {})
    return load_profile("cpu-forged", overrides=[(k, v, "test") for k, v in values.items()]).model


def stack(name: str, forge: Mapping[str, int | float | bool] | None = None, **flags: Any) -> Stack:
    """An arm: changed arguments of the model, and flags with underscores for dashes."""
    serve = {"flags": {k.replace("_", "-"): v for k, v in flags.items()}}
    fields = {"name": name, "description": "an arm", "forge": dict(forge or {}), "serve": serve}
    return Stack.model_validate_json(json.dumps(fields))


def run_record(interruption: str | None) -> Run:
    return Run(
        session="a-session",
        started_wall="2026-11-29T18:00:00+00:00",
        ended_wall="2026-11-29T18:10:00+00:00",
        harness=Origin(version="0", commit="a" * 40, dirty=False, packages={"pytest": "8.4"}),
        host=HostFacts(system="Linux", processor="a CPU", cores=2, memory_mib=16_000, gpus=()),
        selection="",
        interrupted=interruption,
    )


def lock_record(arm: Arm, *, known_answers: bool) -> Lock:
    return Lock(
        arm=arm,
        stack=str(arm),
        engine_version="0.32.0",
        model="/models/forged",
        model_sha256={"model.safetensors": "b" * 64},
        known_answers=known_answers,
    )
