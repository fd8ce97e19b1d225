"""What is said of the evidence itself, beside a verdict: who signs it, what dates it, what else was run."""

from __future__ import annotations

from harness.evidence.sessions import ledger_fault
from harness.judge.case import Case
from harness.records import Verdict
from harness.report.about import about


def seal_lines(case: Case, verdict: Verdict, statements: str | None = None) -> list[str]:
    """Facts, a line each, as plain text; of the statements what is given, else who signs them."""
    found = about(case, verdict)
    challenge = f"{found.challenge} (the prompts follow from it)" if found.challenge else "none was given"
    return [f"statements: {statements or found.signature}", f"challenge: {challenge}", f"ledger: {found.sessions}"]


def seal_flags(case: Case) -> list[str]:
    """What a reader must know before believing any figure: a broken ledger."""
    fault = ledger_fault(case.bundle)
    return [fault] if fault else []
