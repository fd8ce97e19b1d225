"""What each kind of request needed, over all launches of an arm: late kernels, compilations, memory."""

from __future__ import annotations

from dataclasses import dataclass

from harness.client.asks import Sampling
from harness.config.kinds import RequestKind
from harness.judge.case import Case
from harness.judge.kinds import Probe, Taken, memory_samples, monitored, probes, taken
from harness.words import Arm


@dataclass(frozen=True)
class Needed:
    """One kind in one arm; what was not obtained is None."""

    served: str
    """`3 of 4`: launches that served it in full, of those that were asked."""
    kernels: tuple[str, ...] | None
    """None where no launch's monitor was armed."""
    compiled: int
    """Most compilations that one launch's log names."""
    peak_mib: float | None
    kept_mib: float | None


@dataclass(frozen=True)
class KindLine:
    """One kind of request."""

    name: str
    asked: str
    """`64 tokens, temperature 1.0, seed 7`."""
    arms: tuple[tuple[Arm, Needed], ...]


def kind_lines(case: Case) -> list[KindLine]:
    """Every kind that was asked, in the order of the course; empty where the step did not run."""
    profile = case.plan.profile
    found: dict[tuple[Arm, str], list[tuple[Probe, Taken | None]]] = {}
    for planned in case.plan.launches:
        launch = case.launches[planned.id]
        by_kind = probes(launch)
        samples = memory_samples(launch) if by_kind else None
        for name, probe in by_kind.items():
            memory = taken(samples, probe) if samples else None
            found.setdefault((planned.arm, name), []).append((probe, memory))
    return [
        KindLine(kind.name, _asked(kind, profile.kind_tokens(kind)), arms)
        for kind in profile.course.kinds
        if (arms := tuple((arm, _needed(found[arm, kind.name])) for arm in Arm if (arm, kind.name) in found))
    ]


def memory_of(case: Case) -> str:
    """Whose memory the kinds' figures are of, in words: what `memory_samples` takes them from."""
    if any(x.gpu.gpus for x in case.launches.values()):
        return "of a GPU, the one that it took the most of"
    return "of the server's processes on the host"


def _needed(found: list[tuple[Probe, Taken | None]]) -> Needed:
    seen, memory = [p for p, _ in found], [t for _, t in found if t is not None]
    served = sum(not p.failure for p in seen)
    return Needed(
        served=f"{served} of {len(seen)}",
        kernels=tuple(sorted({k for p in seen for k in p.kernels})) if any(monitored(p.launch) for p in seen) else None,
        compiled=max(len(p.compiles) for p in seen),
        peak_mib=max((t.peak_mib for t in memory), default=None),
        kept_mib=max((t.kept_mib for t in memory), default=None),
    )


def _asked(kind: RequestKind, tokens: int) -> str:
    given = (f"{name.replace('_', ' ')} {value}" for name, value in Sampling.of(kind).set_apart().items())
    return ", ".join([f"{tokens:,} tokens", *given])
