"""What both reports say about a verdict: why it came to that, what stands out, what was not tested."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.judge.case import Case
from harness.records import Row, Verdict
from harness.report.launches import harness_text
from harness.report.sealing import seal_flags
from harness.report.summary import cell_text
from harness.report.text import plural, shortened
from harness.words import GRAVE, Arm, Word

NOTEWORTHY = (*GRAVE, Word.NOTE, Word.IMPROVED)
"""Words whose rows stand before the tables, gravest first."""

FAKE_DRIVER = "fake"
"""How the fake NVML's driver version begins, so that no evidence of it is taken for a real one's."""

_FIGURES = re.compile(
    r"^[+-][\d.]+ % \(better is \+\); |: steps/s [+-].*$|; read every [\d,]+ ms, at worst [\d,]+ ms: .*$"
    r"|, read every [\d.]+ s(?=;)|(?<=^exploratory: no clear change): .*$"
)
"""What differs from cell to cell of a reason: else one is listed once per cell, nine times in a matrix."""


@dataclass(frozen=True)
class Group:
    """Rows of one name, in the verdict's order."""

    name: str
    rows: tuple[Row, ...]

    @property
    def counts(self) -> str:
        """`2 pass, 1 fail`."""
        return counted(self.rows)


@dataclass(frozen=True)
class Untested:
    """One reason for which the verdict leaves rows unjudged, and their subjects."""

    reason: str
    names: tuple[str, ...]
    rows: int


def why(case: Case, verdict: Verdict) -> str:
    """One line: the rows that decided."""
    deciding = [r for r in verdict.rows if r.word is verdict.verdict]
    if verdict.verdict is Word.PASS:
        return "every judged row holds"
    if not deciding:
        stopped = f"; the session was interrupted: {case.run.interrupted}" if case.run.interrupted else ""
        return f"no row of any mode was judged, so nothing is shown{stopped}"
    return f"decided by {plural(len(deciding), 'row')}: {shortened([placed(r) for r in deciding])}"


def placed(row: Row) -> str:
    """A row's name with its cell: `prefill [mtp1 engine warm 2048]`."""
    cell = cell_text(row)
    return f"{row.name} [{cell}]" if cell else row.name


def counted(rows: Iterable[Row]) -> str:
    """How often each word stands, in the words' own order."""
    counts = Counter(r.word for r in rows)
    return ", ".join(f"{counts[w]} {w}" for w in Word if counts[w])


def noteworthy(verdict: Verdict) -> list[Row]:
    """Rows that a reader must see, gravest first."""
    return [r for word in NOTEWORTHY for r in verdict.rows if r.word is word]


def grouped(rows: Sequence[Row]) -> list[Group]:
    """Rows by name, names in the order in which they first stand."""
    names = dict.fromkeys(r.name for r in rows)
    return [Group(name, tuple(r for r in rows if r.name == name)) for name in names]


def untested(rows: Iterable[Row]) -> list[Untested]:
    """What the verdict says nothing about, by the reason why."""
    rows = [r for r in rows if r.word is Word.NOT_TESTED]
    found = []
    for reason in dict.fromkeys(_without_figures(r.reason) for r in rows):
        alike = [r for r in rows if _without_figures(r.reason) == reason]
        found.append(Untested(reason, tuple(dict.fromkeys(r.name for r in alike)), len(alike)))
    return found


def flags(case: Case) -> list[str]:
    """What a reader must know before believing any figure."""
    found = []
    if case.run.interrupted:
        found.append(f"the session was interrupted: {case.run.interrupted}")
    if never := [i for i, x in case.launches.items() if x.record is None]:
        found.append(f"never started: {shortened(never)}")
    watches = [x.record.gpu for x in case.launches.values() if x.record and x.record.gpu]
    if any((gpu.driver or "").startswith(FAKE_DRIVER) for watch in watches for gpu in watch.facts):
        found.append("the GPUs are those of the fake NVML: nothing here was measured on a real one")
    if is_same_stack(case):
        found.append(
            "A/A session: both arms are the same stack and the same model, so any difference is noise or a fault "
            "of the harness"
        )
    if fault := harness_text(case)[1]:
        found.append(f"harness: {fault}")
    return [*found, *seal_flags(case)]


def is_same_stack(case: Case) -> bool:
    """An A/A session: whatever differs between its arms is noise, or a fault of the harness."""
    control, candidate = case.locks[Arm.CONTROL], case.locks[Arm.CANDIDATE]
    differing = {"name", "description"}
    return (
        case.plan.control.model_dump(exclude=differing) == case.plan.candidate.model_dump(exclude=differing)
        and control.model_sha256 == candidate.model_sha256
        and control.engine_version == candidate.engine_version
    )


def _without_figures(reason: str) -> str:
    """Figures stand in the table; a list of reasons wants only why there is no judgement."""
    return _FIGURES.sub("", reason)
