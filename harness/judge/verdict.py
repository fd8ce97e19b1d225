"""From a bundle to its verdict: rows in a reviewer's order, and the one word that they come to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.evidence.bundle import Bundle
from harness.judge import looks, reruns
from harness.judge.case import Case, read_case
from harness.judge.cell_identity import with_identities
from harness.judge.rows import (
    acceptance,
    accounting,
    calibration,
    claims,
    client,
    eager,
    gpu_health,
    gpu_memory,
    health,
    identity,
    images,
    integrity,
    jit,
    kinds,
    kv,
    kv_starts,
    late_claim,
    load,
    memory,
    needles,
    nights,
    prompts,
    ranks,
    readiness,
    resolved,
    sense,
    source_checks,
    speed,
    startup,
    thermal,
    variables,
)
from harness.judge.voids import without_voided
from harness.records import Row, Verdict
from harness.words import VERDICT_EXIT, VERDICT_ORDER, Word

SUBJECTS: tuple[Callable[[Case], Iterator[Row]], ...] = (
    readiness.rows,
    jit.rows,
    late_claim.rows,
    kinds.rows,
    kv.rows,
    kv_starts.rows,
    gpu_memory.rows,
    memory.rows,
    ranks.rows,
    claims.rows,
    acceptance.rows,
    accounting.rows,
    identity.rows,
    sense.rows,
    needles.rows,
    startup.rows,
    speed.rows,
    eager.rows,
    nights.rows,
    source_checks.rows,
    prompts.rows,
    load.rows,
    health.rows,
    images.rows,
    resolved.rows,
    variables.rows,
    gpu_health.rows,
    thermal.rows,
    client.rows,
    calibration.rows,
    integrity.rows,
    reruns.rows,
    looks.rows,
)
"""The order that reviewers in this field use (DESIGN 8), with what voids everything at the end."""


PASSING = (Word.PASS, Word.IMPROVED)


def judge(bundle: Bundle) -> Verdict:
    """The verdict of a bundle, from its evidence alone: the same bytes each time.

    Raises:
        BundleError: the evidence cannot be read.
    """
    return judged(bundle).verdict


@dataclass(frozen=True)
class Judged:
    """A session's evidence as it was read, and the verdict that it gives."""

    case: Case
    verdict: Verdict


def judged(bundle: Bundle) -> Judged:
    """The same, with the evidence that it came from: whoever wants figures of it need not read it again.

    Raises:
        BundleError: the evidence cannot be read.
    """
    case = read_case(bundle)
    return Judged(case, judge_case(case))


def judge_case(case: Case) -> Verdict:
    """The verdict of evidence that has been read already."""
    rows = rows_of(case)
    word = overall(rows)
    return Verdict(
        session=case.plan.session,
        verdict=word,
        exit_code=VERDICT_EXIT[word],
        evidence_root_sha256=hashlib.sha256(case.manifest.encode()).hexdigest(),
        rows=rows,
    )


def rows_of(case: Case) -> tuple[Row, ...]:
    """Every row of a case, in the order in which a verdict shows them."""
    found = without_voided(case, (row for subject in SUBJECTS for row in subject(case)))
    return tuple(with_identities(case, calibration.refused(case, found)))


def overall(rows: Sequence[Row]) -> Word:
    """The whole verdict. Rows without a judgement (not tested, note, warn) do not touch it.

    A session in which nothing passed has shown nothing, so it is inconclusive, not a pass. Rows that
    belong to no mode say that the session was run in order, not that anything was measured. Speed that was
    asked for and refused was not shown either.
    """
    words = {row.word for row in rows if row.mode is not None or row.word not in PASSING}
    if Word.REFUSED in words:
        words.add(Word.INCONCLUSIVE)
    for word in VERDICT_ORDER:
        if word in words:
            return word
    return Word.PASS if Word.IMPROVED in words else Word.INCONCLUSIVE
