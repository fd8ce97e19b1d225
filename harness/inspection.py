"""What the parser sees in a log of vLLM: any log at hand, or those of a bundle's launches."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, cast

from harness.errors import BundleError, QualifyError
from harness.evidence.bundle import LaunchDir
from harness.judge.read import read_launch
from harness.judge.rows.startup import start_phases, start_s
from harness.observe.log import Event, Kind, Value, events, read_chunks
from harness.observe.log.fact import Fact, Facts
from harness.observe.log.facts import Fold
from harness.observe.log.stamps import StampPhases
from harness.observe.phases import unexplained_s
from harness.report.text import plain

GZIP = b"\x1f\x8b"
STDIN = "-"
TEXT_CHARACTERS = 160
ERRORS_SHOWN = 5
MOST_HELD = 10_000
FROM_STAMPS = "from the log's own stamps of whole seconds"
FROM_MARKS = "launcher, log and HTTP on one clock"


class NotALogError(QualifyError):
    """What is to be inspected is not there, or no line of it is vLLM's."""


@dataclass(frozen=True)
class Subject:
    """One log."""

    name: str
    """As it was given, or its place in a bundle."""
    path: Path | None
    """None for standard input."""


def subjects(place: str) -> list[Subject]:
    """The logs at a place: a file, `-`, a launch's folder, or a bundle.

    Raises:
        NotALogError: there is none.
    """
    if place == STDIN:
        return [Subject("-", None)]
    path = Path(place)
    if path.is_file():
        return [Subject(place, path)]
    found = [p for p in (path / "server.log", path / "server.log.gz") if p.is_file()]
    found += sorted(p for p in path.glob("launches/*/server.log*") if p.suffix in (".log", ".gz"))
    if not found:
        what = "has no server.log and no launches/*/server.log" if path.is_dir() else "is no file"
        raise NotALogError(f"{place} {what}; give a log of vLLM, `-` for standard input, or the folder of a session")
    return [Subject(str(p), p) for p in found]


def inspect(place: str, form: str) -> Iterator[str]:
    """Pieces of the output, `table` or `json`; memory does not grow with the log.

    Raises:
        NotALogError: there is no log, or none of vLLM; what was given until then is to be thrown away.
    """
    found = subjects(place)
    whole: Callable[[Subject], Iterator[str]] = _json if form == "json" else _table
    if len(found) == 1:
        yield from whole(found[0])
        yield "\n"
        return
    opening, between, closing = ('{"launches": [\n', ",\n", "\n]}\n") if form == "json" else ("", "\n\n", "\n")
    yield opening
    for number, subject in enumerate(found):
        yield between if number else ""
        try:
            # A launch that died before its first line has a log without one, and is worth its place.
            yield from whole(subject)
        except NotALogError as e:
            yield json.dumps({"file": subject.name, "error": str(e)}) if form == "json" else plain(str(e))
    yield closing


@contextmanager
def _opened(subject: Subject) -> Iterator[BinaryIO]:
    try:
        with sys.stdin.buffer if subject.path is None else subject.path.open("rb") as stream:
            buffered = cast("BufferedReader", stream)
            packed = buffered.peek(len(GZIP))[: len(GZIP)] == GZIP
            yield cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if packed else buffered
    except (OSError, EOFError, zlib.error) as e:  # a broken gzip file may be any of them
        raise NotALogError(f"{subject.name} cannot be read: {e}") from None


def _read(subject: Subject, fold: Fold, phases: StampPhases) -> Iterator[Event]:
    """Events of a log; those before it is known to be one of vLLM are held back until it is."""
    held: list[Event] = []
    with _opened(subject) as stream:
        for event in events(read_chunks(stream)):
            fold.feed(event)
            phases.feed(event)
            if not fold.is_log and len(held) < MOST_HELD:
                held.append(event)
                continue
            yield from held
            held.clear()
            yield event
    if not fold.is_log:
        raise NotALogError(
            f"{subject.name} is no log of vLLM: no line of it has a form that vLLM's logger or server prints"
        )


@dataclass(frozen=True)
class Stretch:
    """A phase of the start-up, in seconds; the last one is what no phase explains, where that is known."""

    name: str
    seconds: float


def _phases(subject: Subject, stamped: StampPhases) -> tuple[str, list[Stretch]]:
    """Phases of a start-up, and where their times are from: the harness's where it ran the server."""
    if subject.path and (subject.path.parent / "server.log.times.jsonl").is_file():
        with suppress(BundleError):  # the log of a broken bundle is a log all the same
            launch = read_launch(LaunchDir(subject.path.parent))
            found, total = start_phases(launch), start_s(launch)
            stretches = [Stretch(p.name, round(p.seconds, 6)) for p in found]
            if total is not None:
                stretches.append(Stretch("unexplained", round(unexplained_s(total, found), 6)))
            return FROM_MARKS, stretches
    return FROM_STAMPS, [Stretch(p.name, p.seconds) for p in stamped.phases()]


# --- JSON -----------------------------------------------------------------------------------------------


def _json(subject: Subject) -> Iterator[str]:
    """One object: the events as they are read, then what they come to."""
    fold, phases = Fold(), StampPhases()
    begun = False
    for event in _read(subject, fold, phases):
        yield ",\n" if begun else '{"events": [\n'
        yield json.dumps(event_json(event))
        begun = True
    facts, (source, stretches) = fold.facts(), _phases(subject, phases)
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


# --- table ----------------------------------------------------------------------------------------------


def _table(subject: Subject) -> Iterator[str]:
    fold, phases = Fold(), StampPhases()
    errors: list[Event] = []
    late: list[Event] = []
    count = 0
    for event in _read(subject, fold, phases):
        count += 1
        if event.values.keys() & {"failure", "fatal", "exception"} and len(errors) < ERRORS_SHOWN:
            errors.append(event)
        if event.kind is Kind.LATE_JIT and len(late) < 20:
            late.append(event)
    facts = fold.facts()
    lines = [f"{plain(subject.name)}: {count:,} events", *_rows(facts)]
    lines += _section("late JIT lines", (_shown(e) for e in late))
    lines += _section("first errors", (_shown(e) for e in errors))
    source, stretches = _phases(subject, phases)
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
