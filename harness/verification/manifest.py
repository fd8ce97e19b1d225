"""SHA256SUMS against the files: every one with its hash, none added, none missing, each line where it belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.errors import RefusedBundle
from harness.evidence.manifest import MANIFEST, UNFINISHED
from harness.evidence.mismatch import Mismatch
from harness.evidence.names import Names, name_fault, printable
from harness.evidence.unpack import Limits
from harness.verification.subject import Found, Subject

LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)\n")


def check_manifest(subject: Subject) -> Found:
    """The manifest's own form, then its hashes."""
    if MANIFEST not in subject.files:
        return Found((Mismatch(MANIFEST, "file", "the evidence was sealed", None),))
    try:
        said = dict(_lines(subject.manifest))
    except ValueError as e:
        return Found((Mismatch(MANIFEST, str(e).partition(": ")[0], "what seals a bundle", str(e).partition(": ")[2]),))
    found = subject.digests
    mismatches = [
        Mismatch(name, "SHA-256", said.get(name), found.get(name))
        for name in sorted(said.keys() | found.keys())
        if said.get(name) != found.get(name)
    ]
    mismatches += [
        Mismatch(name, "file", None, "there, unfinished")
        for name in subject.files
        if Path(name).match(UNFINISHED) and name not in said
    ]
    redacted = sorted(subject.originals.keys() & said.keys())
    unchecked = f"SHA-256 of the originals of {len(redacted)} redacted files: only whoever holds them can check it"
    same = sum(said.get(name) == sha256 for name, sha256 in found.items()) - len(redacted)
    told = (f"{same} of {len(said)} files are as in {MANIFEST}; the root hash is {subject.root_sha256}",)
    return Found(tuple(mismatches), told, (unchecked,) if redacted else ())


def _lines(data: bytes) -> Iterator[tuple[str, str]]:
    """Name and hash of each line.

    Raises:
        ValueError: a line is not what sha256sum(1) writes, or not where it belongs; the text begins with the line.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise ValueError(f"encoding: not UTF-8 ({e.reason} at byte {e.start})") from None
    if text and not text.endswith("\n"):
        raise ValueError("end: the last line has no end")
    names, before = Names(Limits().members), ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if (match := LINE.fullmatch(line)) is None:
            raise ValueError(f"line {number}: not a hash, two spaces and a name: {printable(line.strip())}")
        sha256, name = match.groups()
        if fault := name_fault(name):
            raise ValueError(f"line {number}: the name {printable(name)} {fault}")
        if name <= before:
            raise ValueError(f"line {number}: {name} does not come after {before}, so the lines are not sorted")
        try:
            names.add(name)
        except RefusedBundle as e:
            raise ValueError(f"line {number}: {e}") from None
        before = name
        yield name, sha256
