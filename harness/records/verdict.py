"""The judge's answer: verdict.json."""

from __future__ import annotations

from typing import Literal

from harness.records.base import SCHEMA_VERSION, Record
from harness.records.statistics import Tested
from harness.words import Warmup, Word


class Row(Record):
    """One line of the verdict."""

    name: str
    mode: str | None = None
    warmup: Warmup | None = None
    cache: str | None = None
    """The proven state of the caches; a launch that was to be warm and recompiled is not called warm."""
    context_tokens: int | None = None
    control: str | None = None
    candidate: str | None = None
    unit: str = ""
    word: Word
    reason: str
    sources: tuple[str, ...] = ()
    """Files of the bundle, with line or field, that the figures come from."""
    tested: Tested | None = None
    """The statistics behind the word; None where pairs of launches were not tested."""
    cell_sha256: str | None = None
    """Identity of the cell: only figures with the same one may be compared across sessions."""


class Verdict(Record):
    """The judge's answer (verdict.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    session: str
    verdict: Word
    exit_code: int
    evidence_root_sha256: str
    rows: tuple[Row, ...]
