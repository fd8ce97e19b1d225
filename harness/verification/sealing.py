"""What seals a bundle beyond its manifest: the journals of its writers, statements, challenge, session ledger."""

from __future__ import annotations

from harness.verification.subject import Found, Subject


def check_writers(subject: Subject) -> Found:
    """What the pipes gave, against what lies there."""
    from harness.evidence.journal import check_journals, read_journals  # noqa: PLC0415  # heavy, like all below

    if read_journals(subject.root) is None:
        return Found(unchecked=("hashes taken while writing: the bundle is of before there were any",))
    mismatches = check_journals(subject.root, subject.digests)
    return Found(tuple(mismatches), ("every file is as it was when it was written",))


def check_statements(subject: Subject) -> Found:
    """Statements made again, field by field, and their signatures."""
    from harness.evidence.keys import read_public_keys  # noqa: PLC0415
    from harness.evidence.statement import check_statement, signature_of, unstated  # noqa: PLC0415

    trusted = read_public_keys(subject.trusted)
    if not trusted and (why := unstated(subject.bundle)):
        return Found(unchecked=(f"statements: {why}",))
    mismatches = check_statement(subject.root, subject.manifest, trusted=trusted)
    signature = signature_of(subject.root, trusted=trusted)
    told = (f"statements fit the evidence, {signature}",)
    return Found(tuple(mismatches), told, signed=(str(signature),) if signature.trusted else ())


def check_prompts(subject: Subject) -> Found:
    """Every prompt that was sent, from seed and challenge."""
    from harness.evidence.challenge import check_challenge  # noqa: PLC0415

    challenge = subject.plan.challenge
    told = f"prompts follow from seed {subject.plan.seed}{f' and the challenge {challenge!r}' if challenge else ''}"
    return Found(tuple(check_challenge(subject.root)), (told,))


def check_sessions(subject: Subject) -> Found:
    """The chain of the host's ledger, as far as the bundle carries it."""
    from harness.evidence.sessions import check_ledger, ledger_counts  # noqa: PLC0415

    told = (ledger_counts(subject.bundle, subject.verdict),)
    return Found(tuple(check_ledger(subject.root)), told)
