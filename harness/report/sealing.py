"""What both reports say about the evidence itself: who signs it, what dates it, what else was run of these locks."""

from __future__ import annotations

from harness.evidence.sessions import ledger_counts, ledger_fault
from harness.evidence.statement import signer_text
from harness.judge.case import Case
from harness.records import Verdict


def seal_lines(case: Case, verdict: Verdict) -> list[str]:
    """Facts, a line each, as plain text: reports escape them.

    All from the evidence: who signs is known before the first launch, so that the signature can cover the report.
    """
    challenge = case.plan.challenge
    return [
        f"statements: {signer_text(case.run.signer)}",
        f"challenge: {challenge} (the prompts follow from it)" if challenge else "challenge: none was given",
        f"ledger: {ledger_counts(case.bundle, verdict)}",
    ]


def seal_flags(case: Case) -> list[str]:
    """What a reader must know before believing any figure: a broken ledger."""
    fault = ledger_fault(case.bundle)
    return [fault] if fault else []
