"""The status that the measured commit gets."""

from __future__ import annotations

from harness.publish.evidence import Publication
from harness.report.text import public
from harness.words import Word

DESCRIPTION = 140
"""Characters; GitHub refuses more."""

STATES = {
    Word.PASS: "success",
    Word.FAIL: "failure",
    Word.SETUP_FAILURE: "error",
    Word.VOID: "error",
    Word.INCONCLUSIVE: "pending",
}
"""Inconclusive is no error and no failure: evidence is still wanted."""


def status(publication: Publication, url: str) -> dict[str, str]:
    """The payload of POST /repos/OWNER/NAME/statuses/SHA; `url` is where its link leads, '' = nowhere."""
    entry = publication.entry
    root = f"; root {entry.root[:12]}"
    told = " ".join(public(f"{entry.verdict}: {publication.reason}").split())
    room = DESCRIPTION - len(root)
    told = told if len(told) <= room else f"{told[: room - 1]}…"
    payload = {
        "state": STATES[Word(entry.verdict)],
        "context": f"qualify/{publication.profile}",
        "description": f"{told}{root}",
    }
    return payload | ({"target_url": url} if url else {})
