"""A log as a table for people; what strangers wrote cannot move their cursor or change their colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.inspection.reading import FROM_STAMPS, Reading
from harness.inspection.subjects import Subject
from harness.observe.log import Event, Kind, Value
from harness.observe.log.fact import Facts
from harness.report.text import plain

TEXT_CHARACTERS = 160
ERRORS_SHOWN = 5


def as_table(subject: Subject) -> Iterator[str]:
    """Facts with their lines, late kernels, first errors, phases."""
    reading = Reading(subject)
    errors: list[Event] = []
    late: list[Event] = []
    count = 0
    for event in reading.events():
        count += 1
        if event.values.keys() & {"failure", "fatal", "exception"} and len(errors) < ERRORS_SHOWN:
            errors.append(event)
        if event.kind is Kind.LATE_JIT and len(late) < 20:
            late.append(event)
    facts = reading.facts()
    lines = [f"{plain(subject.name)}: {count:,} events", *_rows(facts)]
    lines += _section("late JIT lines", (_shown(e) for e in late))
    lines += _section("first errors", (_shown(e) for e in errors))
    source, stretches = reading.phases()
    places = 0 if source == FROM_STAMPS else 2
    lines += _section(f"phases, {source}", (f"{p.seconds:8.{places}f} s  {p.name}" for p in stretches))
    yield "\n".join(lines)


def _rows(facts: Facts) -> Iterator[str]:
    yield f"\n  {'fact':26} {'value':40} line"
    for name, fact in (facts.columns | facts.resolved | {"errors_after_ready": facts.errors_after_ready}).items():
        if fact:
            line = "" if fact.line is None else str(fact.line)
            yield f"  {name:26} {_short(_figure(fact.value), 78):40} {line}".rstrip()
    if facts.failed:
        details = ", ".join(f"{k} {v}" for k, v in facts.failed.details.items() if k != "failure")
        yield f"\n  failed: {facts.failed.failure} (line {facts.failed.line}) {_short(facts.failed.text)}"
        if details:
            yield f"          {_short(details)}"


def _figure(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = [f"  {line}" for line in lines]
    return [f"\n  {title}", *found] if found else []


def _shown(event: Event) -> str:
    return f"{event.line:7}  {_short(event.process, 24) + '  ' if event.process else ''}{_short(event.text)}"


def _short(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """A stranger's text on one line, without codes that a terminal would obey."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}\u2026"
