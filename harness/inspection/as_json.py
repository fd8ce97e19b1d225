"""A log as one JSON object: `events` as they are read, then what they come to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from harness.inspection.reading import Reading
from harness.inspection.subjects import Subject
from harness.observe.log import Event
from harness.observe.log.fact import Fact


def as_json(subject: Subject) -> Iterator[str]:
    """One object: the events as they are read, then what they come to."""
    reading = Reading(subject)
    begun = False
    for event in reading.events():
        yield ",\n" if begun else '{"events": [\n'
        yield json.dumps(event_json(event))
        begun = True
    facts, (source, stretches) = reading.facts(), reading.phases()
    rest = {
        "facts": {name: _value(fact) for name, fact in facts.columns.items()} | {"file": subject.name},
        "resolved": {name: _value(fact) for name, fact in facts.resolved.items()},
        "lines": {
            name: fact.line for name, fact in (facts.columns | facts.resolved).items() if fact and fact.line is not None
        },
        "failure": facts.failed and asdict(facts.failed),
        "errors_after_ready": _value(facts.errors_after_ready),
        "phases": {"from": source, "stretches": [asdict(p) for p in stretches]},
    }
    yield f"\n],\n{json.dumps(rest, indent=1)[2:-2]}\n}}"


def event_json(event: Event) -> dict[str, Any]:
    """An event as JSON has it; what its line does not say is left out."""
    found: dict[str, Any] = {
        "line": event.line,
        "offset": event.offset,
        "end_offset": event.end_offset,
        "kind": str(event.kind),
        "process": event.process or None,
        "pid": event.pid,
        "level": event.level or None,
        "time": event.stamp or None,
        "source": event.source or None,
    }
    speaker = event.speaker
    ranks = {name: getattr(speaker, name) for name in ("rank", "dp", "pp", "pcp", "tp", "dcp", "ep")}
    found["ranks"] = {name: rank for name, rank in ranks.items() if rank is not None} or None
    return {name: v for name, v in found.items() if v is not None} | {"values": dict(event.values), "text": event.text}


def _value(fact: Fact | None) -> Any:
    return fact.value if fact else None
