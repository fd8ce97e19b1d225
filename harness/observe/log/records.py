"""One piece of a line -> what its writers wrote: process, level, time and text, without what stands around them.

Around vLLM's own prefix there may be others: container engines', compose's, kubectl's, journald's, Slurm's. A
line may also be a JSON object (vLLM's `--logging-config.formatter json`, Docker's json-file, `journalctl -o
json`), and several workers may have written into one line, each record with its own prefix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")

_LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL"
_PREFIX = r"\([A-Za-z][\w.\- =]{0,99}? pid=\d{1,9}(?:, ip=[\w.:]{1,45})?\)\s{1,9}"
_PREFIXES = re.compile(rf"(?:{_PREFIX}){{1,4}}")
_PREFIXES_AT_END = re.compile(rf"(?:{_PREFIX}){{1,4}}\Z")
_NAMED = re.compile(r"\((?P<process>[A-Za-z][\w.\- =]{0,99}?) pid=(?P<pid>\d{1,9})(?P<ip>, ip=)?")
_LEVEL_TIME_SOURCE = (
    rf"(?P<level>{_LEVELS}) (?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) \[(?P<source>[^\]\s]{{1,200}})\](?: |$)"
)
_HEADER = re.compile(_LEVEL_TIME_SOURCE)
_WHOLE_HEADER = re.compile(rf"(?P<prefixes>(?:{_PREFIX}){{0,4}}){_LEVEL_TIME_SOURCE}")
_PREFIXES_CHARACTERS = 600

_OTHER_LEVEL = re.compile(
    rf"(?P<level>{_LEVELS}):\s+"  # uvicorn
    rf"|\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+ - (?P<level2>{_LEVELS}) - "  # FlashInfer
    rf"|\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+\] \S{{1,40}} (?P<level3>{_LEVELS}):? "  # LMCache
)
_OUTER = re.compile(
    r"(?:"
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)(?: (?:stdout|stderr) [FP])? "  # RFC 3339, CRI
    r"|(?=\S{1,20} {1,2}\d{1,2} \d\d:)\S{1,20} {1,2}\d{1,2} \d\d:\d\d:\d\d "  # journald, month in any language
    r")(?:[\w.-]{1,64} [\w./@-]{1,64}(?:\[\d{1,9}\])?: ?)?"
    r"|[\w.-]{1,64} {0,40}\| "  # compose
    r"|\[[\w.-]{1,64}/[\w./-]{1,200}\] "  # kubectl logs --prefix
    r"|\[?(?:rank|default)?\d{1,5}\]?: {0,2}"  # srun --label, torchrun
)
_JSON_BEGIN = re.compile(r'\{"(?:asctime|levelname|log|message|stream|time|[A-Z_]{2,40})"')
_PRIORITIES = {"0": "CRITICAL", "1": "CRITICAL", "2": "CRITICAL", "3": "ERROR"}
"""journald's own priority, used where the text has no level; services' output is 6 whatever it says."""


class LogRecord(NamedTuple):
    """What one writer wrote; several may share a line."""

    text: str
    process: str = ""
    pid: int | None = None
    level: str = ""
    stamp: str = ""
    source: str = ""
    vllm: bool = False
    """Written by vLLM's own logger."""


def records(piece: bytes) -> list[LogRecord]:
    r"""Records of one piece, in order; `piece` may still hold colours and its line end."""
    clean = ANSI.sub(b"", piece) if b"\x1b" in piece else piece
    text = clean.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    header = _WHOLE_HEADER.match(text)
    if header:  # nearly every line, and nearly none has another header in it
        begin = header.end()
        if text.find(" [", begin) < 0 or not _HEADER.search(text, begin):
            return [_headed(header, text[begin:])]
    return list(_of_text(text, depth=0))


def _of_text(text: str, depth: int) -> Iterator[LogRecord]:
    for _ in range(4):
        if not (outer := _OUTER.match(text)):
            break
        text = text[outer.end() :]
    if (begin := _JSON_BEGIN.search(text)) and depth < 3:
        found = _object(text[begin.start() :])
        if found is not None:
            if begin.start():
                yield from _plain(text[: begin.start()])
            yield from _of_object(found, depth)
            return
    yield from _plain(text)


def _headed(header: re.Match[str], text: str) -> LogRecord:
    process, pid = _speaker(header["prefixes"])
    return LogRecord(text, process, pid, header["level"], header["stamp"], header["source"], vllm=True)


def _plain(text: str) -> Iterator[LogRecord]:
    headers = list(_HEADER.finditer(text))
    if not headers:
        yield _unheaded(text)
        return
    said, head = 0, LogRecord("")
    for header in headers:
        prefixes = _PREFIXES_AT_END.search(text, max(said, header.start() - _PREFIXES_CHARACTERS), header.start())
        begin = prefixes.start() if prefixes else header.start()
        if said:
            yield head._replace(text=text[said:begin])
        elif begin:
            yield _unheaded(text[:begin])
        said = header.end()
        whole = _WHOLE_HEADER.match(text, begin)
        assert whole is not None
        head = _headed(whole, text[said:])
    yield head


def _unheaded(text: str) -> LogRecord:
    """Text without vLLM's level and time; a wrapper's prefix may stand before it all the same."""
    prefixes = _PREFIXES.match(text)
    process, pid = _speaker(prefixes[0]) if prefixes else ("", None)
    begin = prefixes.end() if prefixes else 0
    if other := _OTHER_LEVEL.match(text, begin):
        level = other["level"] or other["level2"] or other["level3"]
        return LogRecord(text[other.end() :], process, pid, level)
    return LogRecord(text[begin:], process, pid)


@lru_cache(maxsize=4096)
def _speaker(prefixes: str) -> tuple[str, int | None]:
    """Who wrote a line with these prefixes.

    Ray's driver puts its own before its workers'. Two of one kind are two writers that ran into each
    other: whose text follows is not known, and is not guessed.
    """
    found = list(_NAMED.finditer(prefixes))
    if not found:
        return "", None
    last = found[-1]
    if len({f["process"] for f in found}) == 1 or last["ip"] or last["process"].startswith("Ray"):
        return last["process"], int(last["pid"])
    return "", None


def _object(text: str) -> dict[str, Any] | None:
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _of_object(found: dict[str, Any], depth: int) -> Iterator[LogRecord]:
    """Records of a JSON line; what it names otherwise is left out."""
    if isinstance(log := found.get("log"), str):  # Docker's json-file
        for line in re.split(r"[\r\n]+", log):
            yield from _of_text(line, depth + 1)
        return
    if "MESSAGE" in found:
        yield from _of_journal(found, depth)
        return
    message = found.get("message")
    if not isinstance(message, str):
        return
    pid = found.get("process")
    head = LogRecord(
        text="",
        process=_text(found, "vllm_process_name"),
        pid=pid if isinstance(pid, int) and not isinstance(pid, bool) else None,
        level=_text(found, "levelname"),
        stamp=_text(found, "asctime"),
        source=_text(found, "name"),
        vllm=_text(found, "name").startswith("vllm"),
    )
    for name in ("message", "exc_info", "stack_info"):
        for line in re.split(r"[\r\n]+", _text(found, name)):
            yield head._replace(text=line)


def _of_journal(found: dict[str, Any], depth: int) -> Iterator[LogRecord]:
    message = found["MESSAGE"]
    if isinstance(message, list) and all(isinstance(b, int) and 0 <= b < 256 for b in message):
        message = bytes(message).decode("utf-8", "backslashreplace")  # how journald writes what is no UTF-8
    if not isinstance(message, str):
        return
    level = _PRIORITIES.get(str(found.get("PRIORITY")), "")
    clean = ANSI.sub(b"", message.encode("utf-8", "backslashreplace")).decode()
    for line in re.split(r"[\r\n]+", clean):
        for record in _of_text(line, depth + 1):
            yield record if record.level else record._replace(level=level)


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""
