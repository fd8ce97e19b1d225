"""The full table of ranks: one line per launch and rank, a column for each thing that can differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from harness.judge import ranks
from harness.judge.case import Case
from harness.judge.ranks import PerRank, Ranks
from harness.judge.read import LaunchEvidence
from harness.judge.rows.memory import measure_of_all
from harness.judge.rows.ranks import CORE_SHARE, HOST, TRACER, Figure, figures
from harness.records import PlannedLaunch
from harness.report.launches import in_order
from harness.report.text import tokens_text
from harness.words import Step


@dataclass(frozen=True)
class RankLines:
    """One launch of several ranks."""

    launch: PlannedLaunch
    ranks: tuple[str, ...]
    columns: tuple[tuple[Figure, PerRank], ...]
    sources: tuple[str, ...]


def rank_lines(case: Case) -> list[RankLines]:
    """Launches of several ranks, in run order; each has the same columns."""
    wanted = _figures(case)
    found = []
    for planned in in_order(case):
        launch = case.launches[planned.id]
        known = ranks.ranks(launch)
        if len(known.names) > 1:
            columns = tuple((figure, figure.read(launch, known)) for figure in wanted)
            files = dict.fromkeys(f.file for f, values in columns if any(v is not None for v in values.values()))
            sources = tuple(f"launches/{planned.id}/{file}" for file in files)
            found.append(RankLines(planned, known.names, columns, sources))
    return found


def _figures(case: Case) -> list[Figure]:
    """The judge's, the tracer's where a launch was traced, and the host's memory at more moments."""
    measure = measure_of_all(case.launches.values())
    judged = figures(measure)
    host = next(f for f in judged if f.name == HOST)
    moments = [replace(host, name="host memory, idle", read=partial(_idle, measure=measure))]
    for c in sorted(case.contexts):
        read = partial(_first_prompt, context=c, measure=measure)
        moments.append(replace(host, name=f"host memory, first {tokens_text(c)}", read=read))
    end = replace(host, name="host memory, end")
    traced = [TRACER] if any(x.trace for x in case.plan.launches) else []
    return [*traced, *(f for f in judged if f is not host), CORE_SHARE, *moments, end]


def _idle(launch: LaunchEvidence, known: Ranks, measure: str) -> PerRank:
    asked = None if launch.ready_ns is None else launch.moments.asked_ns
    return ranks.host_mib(launch, known, lambda series: series.last_before(asked), measure)


def _first_prompt(launch: LaunchEvidence, known: Ranks, context: int, measure: str) -> PerRank:
    windows = launch.windows_of(Step.FIRST_PROMPT, context)
    if not windows:
        return dict.fromkeys(known.names)
    begin, end = windows[0].window.begin_ns, windows[0].window.end_ns
    return ranks.host_mib(
        launch, known, lambda s: s.last_before(end) if (p := s.peak(begin, end)) is None else p, measure
    )
