"""The JIT ledger of every launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.judge.case import Case
from harness.observe.jit.ledger import LedgerLine
from harness.records import PlannedLaunch, Verdict
from harness.report.ledgers import launch_ledgers
from harness.report.tables.columns import Column, Kind, Table, launch_columns
from harness.report.text import public

Source = tuple[PlannedLaunch, LedgerLine]


def _lines(case: Case, _: Verdict) -> Iterator[Source]:
    return ((found.planned, line) for found in launch_ledgers(case) for line in found.ledger.lines)


def _text(value: Callable[[LedgerLine], str | None]) -> Callable[[Source], str | None]:
    def shown(source: Source) -> str | None:
        text = value(source[1])
        return public(text) if text else None

    return shown


LATE_JIT = Table(
    "late_jit",
    "One row per line of a launch's JIT ledger: equal events of one phase. Sources stand side by side and must never "
    "be added up; `late` tells those that count from those of the start-up.",
    _lines,
    (
        *launch_columns(lambda x: x[0]),
        Column("source", Kind.TEXT, "who saw it: monitor, compiles, tracer, memory", lambda x: x[1].source),
        Column(
            "what",
            Kind.TEXT,
            "late JIT, compiled, loaded from disk, autotuned, new files, ...",
            _text(lambda x: x.what),
        ),
        Column(
            "kernel",
            Kind.TEXT,
            "its name as that source writes it; missing where none is named",
            _text(lambda x: x.kernel),
        ),
        Column(
            "specialisation",
            Kind.TEXT,
            "constexprs and types that it was compiled for",
            _text(lambda x: x.specialisation),
        ),
        Column("phase", Kind.TEXT, "when it happened", _text(lambda x: x.phase)),
        Column("late", Kind.FLAG, "after the monitor was armed or, without one, after KV sizing", lambda x: x[1].late),
        Column("count", Kind.INTEGER, "equal events", lambda x: x[1].count),
        Column("requests", Kind.TEXT, "requests in flight, the first few", lambda x: " ".join(x[1].requests)),
        Column("ranks", Kind.TEXT, "ranks that saw it", lambda x: " ".join(x[1].ranks)),
        Column(
            "seconds",
            Kind.NUMBER,
            "sum of the durations; missing where the source knows none",
            lambda x: x[1].seconds,
            unit="s",
        ),
        Column("taken", Kind.NUMBER, "most free memory that one event took", lambda x: x[1].taken_mib, unit="MiB"),
        Column("place", Kind.TEXT, "where the first of them stands in the bundle", _text(lambda x: x.place)),
    ),
)
