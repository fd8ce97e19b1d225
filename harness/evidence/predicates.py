"""What the two statements say, from a sealed bundle: subjects, the test result, the measurements."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import BundleError
from harness.evidence.bundle import Bundle, read_record
from harness.evidence.ledger import LedgerProof
from harness.evidence.originals import original_sha256
from harness.evidence.stack_lock import stack_lock
from harness.records import Lock, Row, Verdict
from harness.stack.record import StackLock
from harness.words import Arm, Word

Json = dict[str, Any]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
MEASUREMENTS = "urn:uuid:26f517f6-43f2-4712-978e-88b123ddc763#measurements/v1"
"""A UUID that was drawn at random once: unlike a name it needs no host or domain that somebody must own for ever."""

TEST_RESULT_FILE = "statement.test-result.intoto.json"
MEASUREMENTS_FILE = "statement.intoto.json"

PASSED = (Word.PASS, Word.IMPROVED)
WARNED = (Word.NOTE, Word.WARN)
UNSAID = (Word.NOT_TESTED,)
"""A row that was not tested is in none of the lists: it is no test that was run."""

_SHA256 = re.compile(r"sha256:([0-9a-f]{64})$")


def statements(bundle: Bundle, manifest: bytes) -> dict[str, Json]:
    """Both statements by the name of their file.

    Args:
        bundle: Sealed, with verdict and report.
        manifest: Bytes of its SHA256SUMS.

    Raises:
        BundleError: a record cannot be read.
    """
    verdict = bundle.verdict()
    try:
        subject = list(_subjects(bundle))
        made = {
            TEST_RESULT_FILE: (TEST_RESULT, _test_result(bundle, verdict, manifest)),
            MEASUREMENTS_FILE: (MEASUREMENTS, _measurements(bundle, verdict, manifest)),
        }
    except OSError as e:
        raise BundleError(f"{e.filename}: cannot be read ({e.strerror})") from None
    return {
        name: {"_type": STATEMENT_TYPE, "subject": subject, "predicateType": kind, "predicate": predicate}
        for name, (kind, predicate) in made.items()
    }


def _subjects(bundle: Bundle) -> Iterator[Json]:
    """Per arm what it is: its lock, its image and the image's base, every head, every tree."""
    for arm in Arm:
        lock = bundle.lock(arm)
        yield _descriptor(f"{arm} lock", "sha256", original_sha256(bundle.root, bundle.lock_file(arm)))
        yield from _images(arm, lock)
        if (locked := stack_lock(bundle, arm)) is not None:
            yield from _sources(arm, locked)


def _images(arm: Arm, lock: Lock) -> Iterator[Json]:
    if lock.image is None:
        return
    for name, text in (("image", lock.image.image_id), ("base image", lock.image.base_reference)):
        if match := _SHA256.search(text):
            yield _descriptor(f"{arm} {name}", "sha256", match[1])


def _sources(arm: Arm, lock: StackLock) -> Iterator[Json]:
    for component in lock.components:
        yield _descriptor(f"{arm} {component.name} base", "gitCommit", component.base_commit)
        for head in component.heads:
            if head.head is not None:
                yield _descriptor(f"{arm} {component.name} #{head.pr}", "gitCommit", head.head)
        yield _descriptor(f"{arm} {component.name} tree", "gitTree", component.tree)


def _test_result(bundle: Bundle, verdict: Verdict, manifest: bytes) -> Json:
    """https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md, version 0.1."""
    return {
        "result": _result(verdict),
        "configuration": list(_configuration(bundle, manifest)),
        "passedTests": [row_name(row) for row in verdict.rows if row.word in PASSED],
        "warnedTests": [row_name(row) for row in verdict.rows if row.word in WARNED],
        "failedTests": [row_name(row) for row in verdict.rows if row.word not in (*PASSED, *WARNED, *UNSAID)],
    }


def _result(verdict: Verdict) -> str:
    """Three words for ours: what shows nothing (void, inconclusive, a setup failure) must open no gate."""
    if verdict.verdict is not Word.PASS:
        return "FAILED"
    return "WARNED" if any(row.word in WARNED for row in verdict.rows) else "PASSED"


def _configuration(bundle: Bundle, manifest: bytes) -> Iterator[Json]:
    """What the run depended on, each as it lies in the bundle."""
    plan = bundle.plan()
    for arm in Arm:
        yield _file(bundle, bundle.lock_file(arm), stack=plan.stack(arm).name)
    yield _file(bundle, bundle.plan_file, profile=plan.profile.name, challenge=plan.challenge or None)
    yield _descriptor("SHA256SUMS", "sha256", hashlib.sha256(manifest).hexdigest())


def _measurements(bundle: Bundle, verdict: Verdict, manifest: bytes) -> Json:
    run, plan = bundle.run(), bundle.plan()
    proof = read_record(bundle.ledger_file, LedgerProof) if bundle.ledger_file.is_file() else None
    reports = sorted(p for p in bundle.report_dir.rglob("*") if p.is_file()) if bundle.report_dir.is_dir() else []
    return {
        "session": plan.session,
        "profile": plan.profile.name,
        "smoke": plan.smoke,
        "started": run.started_wall,
        "finished": run.ended_wall,
        "ended": ended_text(run.interrupted),
        "harness": {"version": run.harness.version, "commit": run.harness.commit, "dirty": run.harness.dirty},
        "seed": plan.seed,
        "challenge": plan.challenge or None,
        "evidence": _descriptor("SHA256SUMS", "sha256", hashlib.sha256(manifest).hexdigest()),
        "plan": _file(bundle, bundle.plan_file),
        "verdict": {"word": str(verdict.verdict), "exitCode": verdict.exit_code, **_file(bundle, bundle.verdict_file)},
        "report": [_file(bundle, path) for path in reports],
        "ledger": None if proof is None else {"number": proof.own, "sha256": proof.head, "fault": proof.fault},
        "rows": [row.model_dump(mode="json", exclude_none=True, exclude={"sources", "tested"}) for row in verdict.rows],
    }


def ended_text(interrupted: str | None) -> str:
    """How a session ended, in the words of sealing, ledger and statement."""
    return "completed" if interrupted is None else f"interrupted: {interrupted}"


def row_name(row: Row) -> str:
    """A row with its cell: `prefill [mtp1 engine warm 2048]`."""
    cell = " ".join(str(x) for x in (row.mode, row.warmup, row.cache, row.context_tokens) if x is not None)
    return f"{row.name} [{cell}]" if cell else row.name


def _file(bundle: Bundle, path: Path, **annotations: str | None) -> Json:
    made = _descriptor(path.relative_to(bundle.root).as_posix(), "sha256", original_sha256(bundle.root, path))
    given = {name: value for name, value in annotations.items() if value is not None}
    return {**made, "annotations": given} if given else made


def _descriptor(name: str, algorithm: str, digest: str) -> Json:
    """A resource descriptor of in-toto."""
    return {"name": name, "digest": {algorithm: digest}}
