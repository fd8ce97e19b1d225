"""The rates of every pass: what the reports draw, and what the judge takes medians of."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case
from harness.records import Verdict
from harness.report.speeds import Column as Launch
from harness.report.speeds import Panel, Point, panels
from harness.report.tables.columns import Column, Kind, Table, launch_columns
from harness.report.text import public

Source = tuple[Panel, Launch, Point]


def _passes(case: Case, _: Verdict) -> Iterator[Source]:
    return ((p, launch, point) for p in panels(case) for launch in p.columns for point in launch.points)


PASSES = Table(
    "passes",
    "One row per prefill or decode pass and metric, of launches whose speed is judged.",
    _passes,
    (
        *launch_columns(lambda x: x[1].launch),
        Column("metric", Kind.TEXT, "prefill, decode or decode steps", lambda x: x[0].metric),
        Column("context_tokens", Kind.INTEGER, "length of the prompt", lambda x: x[0].context_tokens, unit="tokens"),
        Column("pass", Kind.INTEGER, "number of the pass, from 0", lambda x: x[2].pass_number),
        Column(
            "value",
            Kind.NUMBER,
            "the rate; missing where the pass may not be used",
            lambda x: x[2].value,
            unit="see unit",
        ),
        Column("unit", Kind.TEXT, "tok/s or steps/s, and what the prompts are made of", lambda x: x[0].unit),
        Column(
            "fault", Kind.TEXT, "why there is no value", lambda x: None if x[2].fault is None else public(x[2].fault)
        ),
        Column(
            "median",
            Kind.NUMBER,
            "of the launch's passes: what is compared; missing where one pass has no value",
            lambda x: x[1].median,
            unit="see unit",
        ),
        Column("source", Kind.TEXT, "where the pass stands in the bundle", lambda x: x[2].source),
    ),
)
