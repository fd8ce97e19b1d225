"""What a comment says of the evidence itself: who signs it, what dates it, what else was run, where it lies."""

from __future__ import annotations

from dataclasses import dataclass

from harness.evidence.sessions import ledger_counts
from harness.evidence.statement import signer_text
from harness.judge.case import Case
from harness.records import Verdict


@dataclass(frozen=True)
class About:
    """None = there is none."""

    sessions: str | None = None
    """Every session of these locks on this host: `3 sessions of these locks here: 1 pass, 1 void, 1 aborted`."""
    challenge: str | None = None
    """The reviewer's string that seeded the prompts."""
    signature: str | None = None
    """Who signs the statements."""
    evidence_url: str | None = None
    """Where the bundle can be had: the one thing that the bundle does not know."""


def about(case: Case, verdict: Verdict, evidence_url: str | None = None) -> About:
    """What a bundle says of itself.

    Who signs is known before the first launch, so that the signature can cover the report.
    """
    return About(
        sessions=ledger_counts(case.bundle, verdict),
        challenge=case.plan.challenge,
        signature=signer_text(case.run.signer),
        evidence_url=evidence_url,
    )
