"""Controls and verdicts for tests, without a session."""

from __future__ import annotations

from harness.controls.control import Arms, Control, Expected
from harness.judge.verdict import overall
from harness.records import Row, Verdict
from harness.words import VERDICT_EXIT, Word

SERVED = ("served to the end", Word.PASS, "every launch was ready")
LESS = Control("less-kv", "a smaller KV cache", (Expected("KV tokens", Word.FAIL, ("beyond",)),), fake=Arms())
SAME = Control("same", "", (Expected("KV tokens", Word.PASS),), fake=Arms())
DIES = Control("dies", "dies", (Expected("served to the end", Word.FAIL, ("ended by itself",)),), fake=Arms())
WORSE_DRAFTS = Control("drafts", "worse drafts", (Expected("accepted", Word.WARN, ("worse",)),), fake=Arms())


def verdict(*rows: tuple[str, Word, str], whole: Word | None = None) -> Verdict:
    """A verdict of these rows, and what they come to."""
    made = tuple(Row(name=name, mode="mtp1", word=word, reason=reason) for name, word, reason in rows)
    word = overall(made) if whole is None else whole
    return Verdict(
        session="a-session",
        verdict=word,
        exit_code=VERDICT_EXIT[word],
        evidence_root_sha256="0" * 64,
        rows=made,
    )
