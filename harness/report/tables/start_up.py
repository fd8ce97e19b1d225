"""The phases of every start-up."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case
from harness.records import Verdict
from harness.report.starts import Start, Stretch, starts
from harness.report.tables.columns import Column, Kind, Table, launch_columns

UNEXPLAINED = "unexplained"


def _stretches(case: Case, _: Verdict) -> Iterator[tuple[Start, Stretch]]:
    return ((start, stretch) for start in starts(case) for stretch in start.stretches)


START_UP = Table(
    "start_up",
    "One row per stretch of a start-up, without a gap from the process's start to the first request served, or to "
    "where it was given up.",
    _stretches,
    (
        *launch_columns(lambda x: x[0].launch),
        Column(
            "phase", Kind.TEXT, "its name, `unexplained` where no mark explains it", lambda x: x[1].name or UNEXPLAINED
        ),
        Column("begin", Kind.NUMBER, "since the process was started", lambda x: x[1].begin_s, unit="s"),
        Column("end", Kind.NUMBER, "since the process was started", lambda x: x[1].end_s, unit="s"),
        Column("duration", Kind.NUMBER, "its length", lambda x: x[1].end_s - x[1].begin_s, unit="s"),
        Column("ready", Kind.FLAG, "the launch came to serve a request", lambda x: x[0].ready),
    ),
)
