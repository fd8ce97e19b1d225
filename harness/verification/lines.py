"""A verification in words: what was checked, what is other than it says, what could not be checked."""

from __future__ import annotations

from collections.abc import Iterator

from harness.verification.verify import Outcome

SHOWN = 60
"""Mismatches that are shown; the rest is counted."""


def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """Lines for a terminal, the answer first."""
    mismatches = outcome.mismatches
    if outcome.verifies:
        yield f"verifies: {outcome.name}"
    else:
        yield f"does not verify: {outcome.name}: {len(mismatches)} mismatch{'es' if len(mismatches) > 1 else ''}"
    notes = [f"note: {text}" for text in outcome.notes]
    yield from () if outcome.verifies else notes
    yield from (f"  {m}" for m in mismatches[:SHOWN])
    if len(mismatches) > SHOWN:
        yield f"  and {len(mismatches) - SHOWN} more"
    if outcome.verdict is not None:
        yield f"verdict: {outcome.verdict.verdict} (exit code {outcome.verdict.exit_code}), as the evidence gives it"
    signed = [who for _, found in outcome.found for who in found.signed]
    yield f"signed by: {', '.join(signed) or 'nobody whose key was given (--trust)'}"
    for name, found in outcome.found:
        if not found.mismatches:
            yield from (f"{name}: {text}" for text in found.told)
    yield from (f"not checked: {text}" for _, found in outcome.found for text in found.unchecked)
    yield from notes if outcome.verifies else ()
