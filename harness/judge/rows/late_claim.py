"""What the claim `late_jit_removed` came to, kernel by kernel and source by source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.config.claims import LateJitRemoved
from harness.judge.case import Case, Cell, completed
from harness.judge.ledger import ARMED, SEEN
from harness.judge.read import LaunchEvidence
from harness.observe.jit.ledger import Ledger, LedgerLine, Source
from harness.observe.jit.names import is_kernel
from harness.observe.log import Kind
from harness.records import Row
from harness.words import Claimed, Step, Warmup

NAME = "claim late_jit_removed"


@dataclass(frozen=True)
class Witness:
    """One source in one cell, in both arms."""

    source: Source
    control: tuple[LedgerLine, ...]
    """Late lines."""
    candidate: tuple[LedgerLine, ...]
    hears_control: bool
    """The source would have said that a kernel is late."""
    hears_candidate: bool
    traced: bool = False
    """In the trace launches, which may have been cut off where the measured ones were not."""

    @property
    def name(self) -> str:
        """The source, and the trace where it was there."""
        return f"{self.source} in the trace" if self.traced and self.source is not Source.TRACER else str(self.source)

    def late(self, lines: tuple[LedgerLine, ...], kernel: str) -> list[LedgerLine]:
        """Lines about a kernel, by the name of its function."""
        return [x for x in lines if x.kernel is not None and is_kernel(x.kernel, kernel)]


@dataclass(frozen=True)
class Finding:
    """What the claim came to for one kernel."""

    kernel: str
    outcome: Claimed
    control: tuple[tuple[Source, LedgerLine], ...]
    candidate: tuple[tuple[Source, LedgerLine], ...]
    why: str

    def side(self, lines: tuple[tuple[Source, LedgerLine], ...]) -> str:
        """`kernel: late in first-prompt 32768 (monitor, tracer)`."""
        if not lines:
            return f"{self.kernel}: not late"
        phases = dict.fromkeys(line.phase for _, line in lines)
        sources = dict.fromkeys(source for source, _ in lines)
        return f"{self.kernel}: late in {', '.join(phases)} ({', '.join(sources)})"


def rows(case: Case) -> Iterator[Row]:
    """One row for the claim, over every mode: a kernel that no mode runs late is in none."""
    for claim in case.plan.candidate.claims:
        if isinstance(claim, LateJitRemoved):
            yield _row([_finding(kernel, list(witnesses(case))) for kernel in claim.kernels])


def witnesses(case: Case) -> Iterator[Witness]:
    """Every source of every cell; not where the engine's warm-ups are off, and a patch's with them."""
    for traced, cell in (*((False, c) for c in case.cells), *((True, c) for c in case.traced)):
        if cell.warmup is Warmup.NONE:
            continue
        for source in (Source.MONITOR, Source.COMPILES, Source.TRACER):
            control, candidate = (_late(case, side, source) for _, side in cell.arms())
            yield Witness(
                source=source,
                control=control,
                candidate=candidate,
                hears_control=_hears(case, cell.control, source),
                hears_candidate=_hears(case, cell.candidate, source) and _comparable(cell, source),
                traced=traced,
            )


def _late(case: Case, side: tuple[LaunchEvidence, ...], source: Source) -> tuple[LedgerLine, ...]:
    ledgers = [case.ledgers[x.folder.id] for x in side if x.record is not None]
    return tuple(line for one in ledgers for line in one.late(source))


def _hears(case: Case, side: tuple[LaunchEvidence, ...], source: Source) -> bool:
    """True where silence of the source means something, in every launch of an arm."""
    return bool(side) and all(completed(x) and _works(case.ledgers[x.folder.id], x, source) for x in side)


def _works(ledger: Ledger, launch: LaunchEvidence, source: Source) -> bool:
    if source is Source.MONITOR:
        return ledger.monitor == ARMED
    if source is Source.TRACER:
        return ledger.tracer == SEEN
    return bool(launch.of_kind(Kind.KERNEL_COMPILE)) or "start" in launch.listings


def _comparable(cell: Cell, source: Source) -> bool:
    """The candidate was asked all that the control was asked, and found caches in the same state."""
    asked = [{step for x in side for step in _served(x)} for _, side in cell.arms()]
    return asked[0] <= asked[1] and (source is not Source.COMPILES or cell.same_cache_state)


def _served(launch: LaunchEvidence) -> set[tuple[Step, int | None]]:
    return {(w.window.step, w.window.context_tokens) for w in launch.windows if w.unserved is None}


def _finding(kernel: str, every: list[Witness]) -> Finding:
    control = tuple((w.source, line) for w in every for line in w.late(w.control, kernel))
    candidate = tuple((w.source, line) for w in every for line in w.late(w.candidate, kernel))
    saw = [w for w in every if w.late(w.control, kernel)]
    deaf = list(dict.fromkeys(w.name for w in saw if not w.hears_candidate))
    if candidate:
        outcome, why = Claimed.REFUTED, "still late in the candidate"
    elif not saw and not any(w.hears_control for w in every):
        outcome, why = Claimed.NOT_SHOWN, "no source was armed in the control"
    elif not saw:
        outcome, why = Claimed.NOT_SHOWN, "not late in the control either"
    elif deaf:
        outcome, why = Claimed.NOT_SHOWN, f"late in the control, but the candidate was not armed for: {', '.join(deaf)}"
    else:
        sources = ", ".join(dict.fromkeys(w.source for w in saw))
        outcome, why = Claimed.HELD, f"late in the control, not late in the candidate ({sources})"
    return Finding(kernel, outcome, control, candidate, why)


def _row(findings: list[Finding]) -> Row:
    for outcome in (Claimed.REFUTED, Claimed.NOT_SHOWN, Claimed.HELD):
        if deciding := [f for f in findings if f.outcome is outcome]:
            break
    told = "; ".join(f"{f.kernel} {f.why}" for f in deciding)
    others = ", ".join(f"{f.kernel} {f.outcome}" for f in findings if f.outcome is not outcome)
    return Row(
        name=NAME,
        control="; ".join(f.side(f.control) for f in findings),
        candidate="; ".join(f.side(f.candidate) for f in findings),
        unit="kernels",
        word=outcome.word,
        reason=f"{outcome}: {told}{f' (beside {others})' if others else ''}",
        sources=tuple(dict.fromkeys(line.place for f in findings for _, line in f.control + f.candidate)),
    )
