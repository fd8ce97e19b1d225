"""A session's evidence as the judge sees it: cells with both arms side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest

from harness.errors import BundleError, ConfigError
from harness.evidence.bundle import Bundle, read_record
from harness.evidence.manifest import manifest_text
from harness.evidence.originals import read_originals
from harness.evidence.stack_lock import stack_lock
from harness.forge.arithmetic import Rule
from harness.forge.truth import load_rule_file
from harness.judge.judgement import Judgement
from harness.judge.proof import cache_proof
from harness.judge.read import LaunchEvidence, read_launch
from harness.judge.window import WindowEvidence
from harness.observe.jit.ledger import Ledger
from harness.records import (
    ENGINE_STAGE,
    GPU_STAGE,
    IMAGE_STAGE,
    KINDS_STAGE,
    FrozenPrompts,
    Lock,
    Plan,
    PlannedLaunch,
    Row,
    Run,
)
from harness.records.client import SelfTest
from harness.records.statistics import Look, Rerun, Tested
from harness.stack.record import StackLock
from harness.words import Arm, Cache, LaunchStatus, Step, Warmup, Word

STAGES_OF_ENVIRONMENT = ("caches", ENGINE_STAGE, IMAGE_STAGE, GPU_STAGE)
"""What fails before a server is started, or takes it away whatever it did."""


@dataclass(frozen=True)
class Cell:
    """Launches of both arms that differ in nothing but the arm."""

    mode: str
    warmup: Warmup
    cache: Cache
    control: tuple[LaunchEvidence, ...]
    """By pair; a launch that never began has no record."""
    candidate: tuple[LaunchEvidence, ...]

    def arms(self) -> Iterator[tuple[Arm, tuple[LaunchEvidence, ...]]]:
        """Both sides."""
        yield Arm.CONTROL, self.control
        yield Arm.CANDIDATE, self.candidate

    @cached_property
    def cache_label(self) -> str:
        """The proven cache state, or both where the arms' states differ; as planned where nothing was started."""
        seen = [dict.fromkeys(cache_proof(x).proof for x in side if not not_begun(x)) for _, side in self.arms()]
        return " vs ".join(dict.fromkeys("/".join(states) for states in seen if states)) or str(self.cache)

    @cached_property
    def same_cache_state(self) -> bool:
        """False where figures that depend on the caches must not be compared: the launches of a pair differ."""
        pairs = [p for p in zip(self.control, self.candidate, strict=True) if not any(map(not_begun, p))]
        return all(cache_proof(a).proof is cache_proof(b).proof for a, b in pairs)

    def against_control(self, word: Word, reason: str) -> tuple[Word, str]:
        """Word and reason of what the candidate alone has, or has not.

        Not tested where it has it and no control was asked all that it was, nor where it has it not and no candidate
        was asked everything: what ended early cannot witness that something does not come.
        """
        arm, side = (Arm.CANDIDATE, self.candidate) if word is Word.PASS else (Arm.CONTROL, self.control)
        ready = [x for x in side if x.ready_ns is not None]
        if any(x.record and x.record.status is LaunchStatus.COMPLETED for x in ready):
            return word, reason
        than = "everything" if word is Word.PASS else "all that the candidate was"
        ended = ", ".join(x.folder.id for x in ready)
        return Word.NOT_TESTED, f"{reason}, but the {arm} was not asked {than}: {ended} ended early"

    def row(
        self,
        name: str,
        word: Word,
        reason: str,
        *,
        context_tokens: int | None = None,
        control: str | None = None,
        candidate: str | None = None,
        unit: str = "",
        sources: tuple[str, ...] = (),
        tested: Tested | None = None,
    ) -> Row:
        """A row of this cell."""
        return Row(
            name=name,
            mode=self.mode,
            warmup=self.warmup,
            cache=self.cache_label,
            context_tokens=context_tokens,
            control=control,
            candidate=candidate,
            unit=unit,
            word=word,
            reason=reason,
            sources=sources,
            tested=tested,
        )

    def windows(
        self, step: Step, context_tokens: int | None = None
    ) -> tuple[list[WindowEvidence], list[WindowEvidence]]:
        """Windows of a step: of all the control's launches, of all the candidate's."""
        control, candidate = (
            [w for launch in side for w in launch.windows_of(step, context_tokens)] for _, side in self.arms()
        )
        return control, candidate

    def timed(self, figure: Callable[[LaunchEvidence], float | None]) -> tuple[list[float | None], list[float | None]]:
        """The same of a figure that is made of times: none of a launch whose clock jumped."""
        return self.values(lambda launch: None if launch.clock_jump else figure(launch))

    def values(self, figure: Callable[[LaunchEvidence], float | None]) -> tuple[list[float | None], list[float | None]]:
        """One figure per launch, of both arms, in the order of the pairs."""
        return [figure(x) for x in self.control], [figure(x) for x in self.candidate]


@dataclass(frozen=True)
class Case:
    """Everything that the judge decides from."""

    bundle: Bundle
    plan: Plan
    run: Run
    launches: dict[str, LaunchEvidence]
    cells: tuple[Cell, ...]
    traced: tuple[Cell, ...]
    """Launches with the tracer inside, per mode: nothing but kernels is judged from them."""
    locks: dict[Arm, Lock]
    prompts: FrozenPrompts | None
    """Text prompts as ids; None where ids were asked."""
    rules: dict[Arm, Rule]
    """Rules of the forged models; empty for others."""
    stack_locks: dict[Arm, StackLock]
    """Locks of the stacks that have patches; empty for others."""
    selftest: SelfTest | None = None
    """The client's self-test; None where it was not run."""

    @cached_property
    def manifest(self) -> str:
        """SHA-256 of every file of the evidence as it is now, in the format of SHA256SUMS."""
        return manifest_text(self.bundle.root)

    @cached_property
    def original_cells(self) -> Mapping[str, str]:
        """Hash of each redacted cell's identity to that of its original; empty where nothing was exported."""
        originals = read_originals(self.bundle.root)
        return {} if originals is None else originals.cells

    @cached_property
    def paired(self) -> Mapping[tuple[str, Warmup, Cache, str, int | None], Judgement]:
        """What the pairs say about each metric, by mode, warm-up, planned cache, row and context."""
        from harness.judge.family import judge_family  # noqa: PLC0415  # its metrics read cases
        from harness.judge.rows import load, speed, startup  # noqa: PLC0415

        every = (startup.metrics, speed.metrics, load.metrics)
        return judge_family(self, lambda case, cell: chain(*(metrics(case, cell) for metrics in every)))

    @cached_property
    def ledgers(self) -> dict[str, Ledger]:
        """The JIT ledger of every launch that began."""
        from harness.judge.ledger import ledger  # noqa: PLC0415  # it reads memory, whose rows read cases

        return {i: ledger(x) for i, x in self.launches.items() if x.record is not None}

    @property
    def contexts(self) -> list[int]:
        """Context lengths in tokens."""
        return [c.prompt_tokens for c in self.plan.profile.course.contexts]

    def draft_tokens(self, mode: str) -> int:
        """Draft tokens per step of a mode."""
        return self.plan.profile.modes[mode].draft_tokens


def decided_plan(bundle: Bundle) -> Plan:
    """What the plan came to: without launches of a second look that no first look asked for, with second tries."""
    plan: Plan = bundle.plan()
    files = {x.mode: bundle.look_file(x.mode) for x in plan.launches if x.look > 1}
    goes_on = {mode for mode, file in files.items() if file.is_file() and read_record(file, Look).goes_on}
    kept = tuple(x for x in plan.launches if x.look == 1 or x.mode in goes_on)
    void = {i for x in kept if (file := bundle.rerun_file(x.id)).is_file() for i in read_record(file, Rerun).pair}
    again = tuple(x for x in plan.reruns if x.again_of in void or bundle.launch(x.id).record_file.is_file())
    return plan.model_copy(update={"launches": tuple(sorted((*kept, *again), key=lambda x: (x.lane, x.place)))})


def read_case(bundle: Bundle, plan: Plan | None = None) -> Case:
    """Read a bundle, all that its plan came to or the launches of the plan that is given.

    Raises:
        BundleError: something is missing, newer or broken.
    """
    plan = plan or decided_plan(bundle)
    launches = {x.id: read_launch(bundle.launch(x.id)) for x in plan.launches}
    replaced = {x.again_of for x in plan.launches}
    return Case(
        bundle=bundle,
        plan=plan,
        run=bundle.run(),
        launches=launches,
        cells=_cells([x for x in plan.launches if x.measured and x.id not in replaced], launches),
        traced=_cells([x for x in plan.launches if x.trace], launches),
        locks={arm: bundle.lock(arm) for arm in Arm},
        prompts=bundle.prompts(),
        rules={arm: _rule(bundle, arm) for arm in Arm if bundle.truth_file(arm).is_file()},
        stack_locks={arm: locked for arm in Arm if (locked := stack_lock(bundle, arm)) is not None},
        selftest=bundle.selftest(),
    )


def _rule(bundle: Bundle, arm: Arm) -> Rule:
    try:
        return load_rule_file(bundle.truth_file(arm))
    except ConfigError as e:
        raise BundleError(str(e)) from None


def _cells(planned: Sequence[PlannedLaunch], launches: Mapping[str, LaunchEvidence]) -> tuple[Cell, ...]:
    cells = []
    for mode, warmup, cache in dict.fromkeys((x.mode, x.warmup, x.cache) for x in planned):
        sides = {
            arm: tuple(
                _as_judged(launches[x.id])
                for x in sorted(planned, key=lambda x: x.pair)
                if (x.mode, x.warmup, x.cache, x.arm) == (mode, warmup, cache, arm)
            )
            for arm in Arm
        }
        cells.append(Cell(mode, warmup, cache, sides[Arm.CONTROL], sides[Arm.CANDIDATE]))
    return tuple(cells)


def _as_judged(launch: LaunchEvidence) -> LaunchEvidence:
    """Requests that something around the server cut short are not held against its arm."""
    return replace(launch, windows=()) if not_begun(launch) else launch


def launches_of(cells: Sequence[Cell], arm: Arm) -> list[LaunchEvidence]:
    """Launches of one arm, cell by cell."""
    return [x for cell in cells for x in dict(cell.arms())[arm]]


def completed(launch: LaunchEvidence) -> bool:
    """True for a launch that ran its course and was stopped by us, or died of a probe that comes last."""
    record = launch.record
    return record is not None and (record.status is LaunchStatus.COMPLETED or died_of_a_kind(launch))


def died_of_a_kind(launch: LaunchEvidence) -> bool:
    """True where the server ended by itself under a request-kind probe: its rows tell of which one."""
    record = launch.record
    return record is not None and record.status is LaunchStatus.FAILED and record.stage == KINDS_STAGE


def not_begun(launch: LaunchEvidence) -> bool:
    """True where something around the server was missing or went away, so that nothing tells about the arm."""
    record = launch.record
    return record is None or (record.status is LaunchStatus.FAILED and record.stage in STAGES_OF_ENVIRONMENT)


def shown(values: list[float | None], form: str = "{:.1f}") -> str | None:
    """Values of the pairs for a row: `12.3` or `12.3 / 12.5`; None where there is none at all."""
    if all(v is None for v in values):
        return None
    return " / ".join("-" if v is None else form.format(v) for v in values)


def both(control: list[float | None], candidate: list[float | None]) -> tuple[list[float], list[float]]:
    """The pairs of which both sides have a value."""
    pairs = [(a, b) for a, b in zip_longest(control, candidate) if a is not None and b is not None]
    return [a for a, _ in pairs], [b for _, b in pairs]


def absent(control: list[float | None], candidate: list[float | None]) -> str:
    """Why there is no pair to judge."""
    has_control, has_candidate = (any(v is not None for v in side) for side in (control, candidate))
    if has_control == has_candidate:
        return "neither arm has this figure: the step did not run, or its windows are void"
    return f"only the {Arm.CONTROL if has_control else Arm.CANDIDATE} has this figure"
