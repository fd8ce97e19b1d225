"""A log's bytes -> its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import BinaryIO

from harness.observe.log.blocks import BLOCK_BYTES, blocks
from harness.observe.log.event import TEXT_CHARACTERS, Event, Kind, Value
from harness.observe.log.forms import FORMS, Form, typed
from harness.observe.log.forms.failures import LEVELS
from harness.observe.log.records import LogRecord, records
from harness.observe.log.scan import Piece, pieces

_JOURNAL = b'"MESSAGE"'
"""`journalctl -o json`: its message may be a list of bytes, in which no word is found, and its level a number."""
TRIGGERS = tuple(dict.fromkeys((*(form.trigger for form in FORMS), *LEVELS, _JOURNAL)))
_FORMS_BY_TRIGGER = [tuple(n for n, form in enumerate(FORMS) if form.trigger == trigger) for trigger in TRIGGERS]
_ALL = tuple((form.word.decode(), form) for form in FORMS)


@lru_cache(maxsize=4096)
def _forms(triggers: int) -> tuple[tuple[str, Form], ...]:
    """Forms to try on a piece that holds these triggers, in their order, with their words."""
    known = [n for n in range(len(TRIGGERS)) if triggers >> n & 1]
    if any(TRIGGERS[n] == _JOURNAL for n in known):
        return _ALL
    return tuple(_ALL[place] for place in sorted(place for n in known for place in _FORMS_BY_TRIGGER[n]))


_HEADERS = (b"INFO ", b"WARNING ", b"DEBUG ", *LEVELS, b'"levelname"')
"""In every line of vLLM's own logger: looked for until there was one."""
_ERROR_LEVELS = tuple(level.decode() for level in LEVELS)


def events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Every event of a log, in the order of its lines.

    Memory does not grow with the log nor with its longest line. Where the chunks are cut changes nothing. A
    last line without its end says nothing: a log that was cut anywhere gives the first of its events.
    """
    seen = False
    for block in blocks(chunks):
        for piece in pieces(block, TRIGGERS if seen else (*TRIGGERS, *_HEADERS)):
            for record in records(piece.data):
                if record.vllm and not seen:
                    seen = True
                    yield _event(Kind.FIRST_RECORD, {}, record, piece)
                if event := _said(record, piece):
                    yield event


def read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """A file's bytes, for `events`."""
    while chunk := stream.read(BLOCK_BYTES):
        yield chunk


def _said(record: LogRecord, piece: Piece) -> Event | None:
    """What a record says: the first form that matches, in their order."""
    text = record.text
    for word, form in _forms(piece.words):
        if word in text and (match := form.pattern.search(text)):
            # An exception's name in a line of a lower level is quoted there, not raised.
            if form.kind is Kind.ERROR and record.level not in ("", *_ERROR_LEVELS):
                continue
            values = {name: typed(name, value) for name, value in match.groupdict().items() if value is not None}
            return _event(form.kind, {**form.says, **values}, record, piece)
    if record.level in _ERROR_LEVELS and text.strip():
        return _event(Kind.ERROR, {}, record, piece)
    return None


def _event(kind: Kind, values: dict[str, Value], record: LogRecord, piece: Piece) -> Event:
    return Event(
        kind=kind,
        line=piece.line,
        end_offset=piece.end_offset,
        process=record.process,
        text=record.text[:TEXT_CHARACTERS],
        values=values,
        offset=piece.offset,
        level=record.level,
        pid=record.pid,
        stamp=record.stamp,
        source=record.source,
    )
