"""Free GPU memory by phase, rank by rank: the least of them, and how far they are apart."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.rows.gpu_memory import figures
from harness.observe.memory import NOTHING, FreeFigures
from harness.records import PlannedLaunch
from harness.report.launches import in_order
from harness.report.text import tokens_text


@dataclass(frozen=True)
class RankFigures:
    """One launch: per phase the figures of its GPUs in the lane's order, in MiB; None where no sample tells."""

    launch: PlannedLaunch
    phases: dict[str, tuple[float | None, ...]]
    ranks: int
    source: str

    def lowest(self, phase: str) -> float | None:
        """The rank that is worst off."""
        return min(_known(self.phases[phase]), default=None)

    def spread(self, phase: str) -> float | None:
        """The best rank less the worst one."""
        known = _known(self.phases[phase])
        return max(known) - min(known) if known else None

    def worst(self, phase: str) -> int | None:
        """Which rank that is; None where all have the same."""
        known, lowest = _known(self.phases[phase]), self.lowest(phase)
        return self.phases[phase].index(lowest) if known and max(known) != lowest else None


def rank_figures(case: Case) -> list[RankFigures]:
    """Every launch whose GPUs were sampled, in run order."""
    found = []
    for planned in in_order(case):
        gpus = list(figures(case.launches[planned.id]).values())
        if gpus:
            source = f"launches/{planned.id}/gpu.parquet"
            found.append(RankFigures(planned, _phases(case, gpus), len(gpus), source))
    return found


def _phases(case: Case, gpus: list[FreeFigures]) -> dict[str, tuple[float | None, ...]]:
    firsts = {
        f"first {tokens_text(c)}": tuple(f.prompts.get(c, NOTHING).lowest for f in gpus) for c in sorted(case.contexts)
    }
    return {
        "before start": tuple(f.before for f in gpus),
        "idle": tuple(f.idle for f in gpus),
        **firsts,
        "lowest": tuple(f.lowest for f in gpus),
        "end": tuple(f.end for f in gpus),
        "after exit": tuple(f.after for f in gpus),
    }


def _known(values: tuple[float | None, ...]) -> list[float]:
    return [v for v in values if v is not None]
