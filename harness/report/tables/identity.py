"""The outputs that identity is judged from, each against the control's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.case import Case, Cell
from harness.judge.identity import Difference, compare
from harness.judge.rows.identity import outputs
from harness.records import OutputRecord, PlannedLaunch, Verdict
from harness.report.tables.columns import Column, Kind, Table, launch_columns
from harness.words import Identity, Step


@dataclass(frozen=True)
class Source:
    """One answer to an identity prompt, and how it compares with the control's first."""

    launch: PlannedLaunch
    pass_number: int
    index: int
    output: OutputRecord
    same: bool | None
    """None where there is nothing to compare it with."""
    difference: Difference | None


def _answers(case: Case, _: Verdict) -> Iterator[Source]:
    planned = {x.id: x for x in case.plan.launches}
    for cell in case.cells:
        base = _base(cell)
        for launch in (*cell.control, *cell.candidate):
            for number in (0, 1):
                found = outputs(launch, Step.IDENTITY, None, number)
                yield from _compared(
                    planned[launch.folder.id], number, found, base, case.plan.profile.gates.near_tie_nat
                )


def _base(cell: Cell) -> list[OutputRecord]:
    """The first pass of the first launch of the control that made one."""
    passes = (outputs(launch, Step.IDENTITY, None, 0) for launch in cell.control)
    return next((p for p in passes if p), [])


def _compared(
    planned: PlannedLaunch, number: int, found: list[OutputRecord], base: list[OutputRecord], near: float
) -> Iterator[Source]:
    comparison = compare(base, found, near_tie_nat=near)
    known = comparison.state is not Identity.NOT_COMPARABLE
    differing = {d.index: d for d in comparison.differing}
    for index, output in enumerate(found):
        yield Source(planned, number, index, output, index not in differing if known else None, differing.get(index))


IDENTITY = Table(
    "identity",
    "One row per answer to an identity prompt, compared with the answer of the control's first launch of the same cell "
    "(for that one, with itself).",
    _answers,
    (
        *launch_columns(lambda x: x.launch),
        Column("pass", Kind.INTEGER, "each launch makes two, 0 and 1", lambda x: x.pass_number),
        Column("index", Kind.INTEGER, "the prompt, from 0", lambda x: x.index),
        Column("request", Kind.TEXT, "its name in requests.jsonl", lambda x: x.output.request),
        Column("tokens", Kind.INTEGER, "length of the answer", lambda x: len(x.output.token_ids), unit="tokens"),
        Column(
            "sha256",
            Kind.TEXT,
            "over ids, text and finish reason; missing for an empty answer",
            lambda x: x.output.sha256,
        ),
        Column("same", Kind.FLAG, "the same bytes as the control's; missing where not comparable", lambda x: x.same),
        Column(
            "first_difference",
            Kind.INTEGER,
            "first token that differs, from 0; missing where none does",
            lambda x: x.difference and x.difference.token_index,
        ),
        Column(
            "gap",
            Kind.NUMBER,
            "logprob gap of the control's two best candidates there",
            lambda x: x.difference and x.difference.gap_nat,
            unit="nat",
        ),
    ),
)
