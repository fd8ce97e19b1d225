"""What is said of the evidence itself, beside a verdict: who signs it, what dates it, what else was run."""

from __future__ import annotations

from harness.evidence.manifest import MANIFEST
from harness.evidence.sessions import ledger_fault
from harness.judge.case import Case
from harness.records import Verdict
from harness.report.about import about

UNSEALED = f"not sealed: the bundle holds no {MANIFEST}, which a session writes at its end"


def seal_lines(case: Case, verdict: Verdict, statements: str | None = None) -> list[str]:
    """Facts, a line each, as plain text; of the statements what is given, else who signs them."""
    found = about(case, verdict)
    challenge = f"{found.challenge} (the prompts follow from it)" if found.challenge else "none was given"
    return [f"statements: {statements or found.signature}", f"challenge: {challenge}", f"ledger: {found.sessions}"]


def seal_flags(case: Case) -> list[str]:
    """What a reader must know before believing any figure: no seal, or a broken ledger."""
    fault = ledger_fault(case.bundle)
    return [*([] if is_sealed(case) else [UNSEALED]), *([fault] if fault else [])]


def is_sealed(case: Case) -> bool:
    """False where there is no manifest: the harness was gone before the session's end."""
    return (case.bundle.root / MANIFEST).is_file()
