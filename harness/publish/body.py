"""A published comment's text: a hidden first line that says what it is, the report, and what it said before.

The first line is how the comment is found again, and what the history of the next one is made of:

    <!-- qualify profile=NAME head=40HEX root=64HEX ended=TIME verdict=pass session=ID -->
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from harness.words import VERDICT_ORDER

HISTORY = 20
"""Earlier pieces of evidence that a comment keeps."""

_FIRST = re.compile(
    r"<!-- qualify profile=(?P<profile>\S+) head=(?P<head>[0-9a-f]{40}) root=(?P<root>[0-9a-f]{64}) "
    r"ended=(?P<ended>[0-9A-Za-z:.+-]{1,40}) verdict=(?P<verdict>[a-z-]{1,20}) session=(?P<session>[\w.%]{1,300}) -->"
)
_ENTRY = re.compile(
    r"- (?P<ended>[0-9A-Za-z:.+-]{1,40}) \*\*(?P<verdict>[a-z ]{1,20})\*\* root `(?P<root>[0-9a-f]{64})` "
    r"head `(?P<head>[0-9a-f]{40})` session `(?P<session>[\w.-]{1,200})`"
)
_SESSION = re.compile(r"[\w.-]{1,200}")
_SUMMARY = "<details><summary>Earlier evidence in this comment"


@dataclass(frozen=True)
class Entry:
    """One piece of evidence, current or earlier."""

    head: str
    root: str
    ended: str
    """Wall time of the session's end; of its start where no end was recorded."""
    verdict: str
    session: str


@dataclass(frozen=True)
class Published:
    """What a comment that was found says of itself; an edit by hand may have taken parts of it."""

    current: Entry | None
    history: tuple[Entry, ...]
    """Latest first."""


def marker(profile: str) -> str:
    """How the first line of a profile's comment begins. A `--` would end an HTML comment."""
    return f"<!-- qualify profile={quote(profile, safe='').replace('-', '%2D')} "


def is_of(body: str, profile: str) -> bool:
    """True for a comment of that profile: the marker is its very beginning, so a quoted one is none."""
    return body.startswith(marker(profile))


def compose(profile: str, entry: Entry, text: str, before: Published | None, head_now: str | None) -> str:
    """The whole body.

    Args:
        profile: Name of the profile.
        entry: The evidence that the text is about.
        text: The report.
        before: The comment that this one takes the place of; None for the first one.
        head_now: The pull request's head as it is; None where it was not asked for.
    """
    first = (
        f"{marker(profile)}head={entry.head} root={entry.root} ended={entry.ended} "
        f"verdict={entry.verdict.replace(' ', '-')} session={quote(entry.session, safe='').replace('-', '%2D')} -->\n"
    )
    return with_head(f"{first}{text.rstrip()}\n{_history(_earlier(entry, before))}", head_now or entry.head)


def with_head(body: str, head_now: str) -> str:
    """The body, marked stale where the head is another one than what was measured, and else not."""
    first, _, rest = body.partition("\n")
    lines = rest.split("\n")
    while lines and lines[0].startswith(">"):
        lines.pop(0)
    found = _FIRST.match(first)
    stale = ""
    if found is not None and found["head"] != head_now:
        stale = (
            f"> [!WARNING]\n> **STALE**: measured at `{found['head']}`, and the pull request's head is `{head_now}` "
            "by now. Nothing below is about that one.\n"
        )
    if stale:
        return f"{first}\n{stale}\n" + "\n".join(lines).lstrip("\n")
    return f"{first}\n" + "\n".join(lines).lstrip("\n")


def parse(body: str) -> Published:
    """What a comment says of itself."""
    lines = plain_lines(body)
    first = _FIRST.match(lines[0])
    current = None
    # Others with write access can edit the comment: only what has the form of an entry goes on into the next one.
    if first is not None and _SESSION.fullmatch(session := unquote(first["session"])):
        verdict = first["verdict"].replace("-", " ")
        current = Entry(first["head"], first["root"], first["ended"], verdict, session)
    begin = next((i for i, line in enumerate(lines) if line.startswith(_SUMMARY)), len(lines))
    found = (_ENTRY.fullmatch(line) for line in lines[begin:])
    return Published(current, tuple(Entry(**m.groupdict()) for m in found if m is not None))


def plain_lines(body: str) -> list[str]:
    r"""Lines whichever way they end: GitHub's editor writes `\r\n`."""
    return body.replace("\r\n", "\n").split("\n")


def is_verdict(text: str) -> bool:
    """One of the words that a session can come to."""
    return text in VERDICT_ORDER


def _earlier(entry: Entry, before: Published | None) -> list[Entry]:
    """The history with what stood there until now, each piece of evidence once."""
    if before is None:
        return []
    every = [*([before.current] if before.current else []), *before.history]
    known = {(e.root, e.head): e for e in reversed(every) if is_verdict(e.verdict)}
    known.pop((entry.root, entry.head), None)
    return list(reversed(known.values()))[:HISTORY]


def _history(entries: list[Entry]) -> str:
    if not entries:
        return ""
    lines = [f"- {e.ended} **{e.verdict}** root `{e.root}` head `{e.head}` session `{e.session}`\n" for e in entries]
    at_most = f", the last {HISTORY}" if len(entries) == HISTORY else ""
    return f"\n{_SUMMARY} ({len(entries)}{at_most})</summary>\n\n{''.join(lines)}\n</details>\n"
