"""A session's two lines of the ledger: made, carried in its bundle, counted, and checked again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.errors import BundleError
from harness.evidence.bundle import Bundle, read_record, write_record
from harness.evidence.ledger import FIRST, Content, Entry, LedgerProof, enter, link, lock_identity, now
from harness.evidence.mismatch import Mismatch
from harness.evidence.originals import is_redacted
from harness.evidence.pipe import MANIFEST, file_digest
from harness.records import Verdict
from harness.words import Arm, Word

ABORTED = "aborted"
UNFINISHED = "unfinished"
"""Of a session without an end when this one began: it may have run beside it."""


def enter_start(bundle: Bundle) -> Entry:
    """Put the session into the ledger, and the proof of that into the evidence; before its first launch.

    Raises:
        SetupFailure: the ledger cannot be written.
    """
    plan, run = bundle.plan(), bundle.run()
    arms = {str(arm): lock_identity(bundle.lock(arm), plan.stack(arm)) for arm in Arm}
    entry, proof = enter(
        Content(
            event="started",
            session=plan.session,
            wall=now(),
            profile=plan.profile.name,
            commit=run.harness.commit,
            **arms,
        )
    )
    write_record(bundle.ledger_file, proof)
    return entry


def enter_end(bundle: Bundle, verdict: Verdict | None, ended: str) -> None:
    """Put its end into the ledger, and the proof of that beside the evidence, whose root hash it names.

    Raises:
        SetupFailure: the ledger cannot be written.
        BundleError: the bundle's part of it was changed.
    """
    if not bundle.ledger_file.is_file():
        return
    proof = read_record(bundle.ledger_file, LedgerProof)
    if proof.own not in proof.entries:
        raise BundleError(f"{bundle.ledger_file}: lacks the session's own line, so its end cannot follow on it")
    begun = Entry(number=proof.own, previous=FIRST, content=proof.entries[proof.own], sha256=proof.head)
    manifest = bundle.root / MANIFEST
    content = Content(
        event="ended",
        session=begun.content.session,
        wall=now(),
        verdict=None if verdict is None else str(verdict.verdict),
        exit_code=None if verdict is None else verdict.exit_code,
        root_sha256=file_digest(manifest)[0] if manifest.is_file() else None,
        ended=ended,
    )
    write_record(bundle.ledger_end_file, enter(content, since=begun)[1])


def ledger_counts(bundle: Bundle, verdict: Verdict) -> str:
    """`3 sessions of these locks here: 1 pass, 1 void, 1 aborted`, this one with the verdict that is given.

    From the evidence alone: sessions that were started later are not among them.
    """
    if not bundle.ledger_file.is_file():
        return "sessions of these locks here: not counted, the bundle holds no part of the ledger"
    proof = read_record(bundle.ledger_file, LedgerProof)
    began = [c.session for c in proof.entries.values() if c.event == "started"]
    ends = {c.session: c for c in proof.entries.values() if c.event == "ended"}
    own = proof.entries[proof.own].session if proof.own in proof.entries else None
    words = Counter(_outcome(ends.get(session)) for session in began if session != own)
    words[ABORTED if bundle.run().interrupted else str(verdict.verdict)] += 1
    order = [*map(str, Word), ABORTED, UNFINISHED]
    counted = ", ".join(f"{words[word]} {word}" for word in sorted(words, key=order.index))
    number = words.total()
    return f"{number} session{'' if number == 1 else 's'} of these locks here: {counted}"


def ledger_fault(bundle: Bundle) -> str | None:
    """What every report has to say loudly: the host's ledger is broken, or missing in the bundle; None where whole."""
    if not bundle.ledger_file.is_file():
        return None
    fault = read_record(bundle.ledger_file, LedgerProof).fault
    return (
        f"the session ledger of this host is broken ({fault}): sessions may have been taken out of it"
        if fault
        else None
    )


def _outcome(end: Content | None) -> str:
    if end is None:
        return UNFINISHED
    return end.verdict if end.ended == "completed" and end.verdict in set(map(str, Word)) else ABORTED


def check_ledger(root: Path) -> list[Mismatch]:
    """Check the chain in a bundle, its own lines against the bundle, and whether it was told to be broken.

    A bundle of before there was a ledger has nothing to check; one that is signed cannot have lost it unseen.
    """
    bundle = Bundle(root)
    found: list[Mismatch] = []
    try:
        start = _proof_of(bundle.ledger_file)
        end = _proof_of(bundle.ledger_end_file)
        if start is not None:
            found += _chain_faults("ledger.json", start)
            found += _start_faults(bundle, start)
        if end is None and start is not None and (root / MANIFEST).is_file():
            found.append(Mismatch("ledger.end.json", "file", "the end of a session that was sealed", None))
        if end is not None:
            found += _chain_faults("ledger.end.json", end)
            found += _end_faults(bundle, start, end)
    except BundleError as e:
        found.append(Mismatch("ledger.json", "record", "a part of the session ledger", str(e)))
    return found


def _proof_of(path: Path) -> LedgerProof | None:
    return read_record(path, LedgerProof) if path.is_file() else None


def _chain_faults(file: str, proof: LedgerProof) -> Iterator[Mismatch]:
    if proof.fault:
        yield Mismatch(file, "chain", "one unbroken chain", proof.fault)
    if not proof.chain or proof.own not in proof.entries:
        yield Mismatch(file, "entries", "the session's own line", None)
        return
    last = proof.previous
    for number, content in enumerate(proof.chain, proof.first):
        last = link(number, last, content)
    if last != proof.head:
        yield Mismatch(file, "head", proof.head, last)
    for number, entry in sorted(proof.entries.items()):
        place = number - proof.first
        said = proof.chain[place] if 0 <= place < len(proof.chain) else None
        if said != entry.sha256:
            yield Mismatch(file, f"entries.{number}", said, entry.sha256)


def _start_faults(bundle: Bundle, proof: LedgerProof) -> Iterator[Mismatch]:
    own = proof.entries.get(proof.own)
    if own is None:
        return
    plan = bundle.plan()
    expected: dict[str, object] = {
        "event": "started",
        "session": plan.session,
        "profile": plan.profile.name,
        "commit": bundle.run().harness.commit,
        # Of an arm whose words were removed, only the original's lock has the identity.
        **{
            str(arm): lock_identity(bundle.lock(arm), plan.stack(arm))
            for arm in Arm
            if not any(is_redacted(bundle.root, f) for f in (bundle.lock_file(arm), bundle.plan_file))
        },
    }
    yield from _differences("ledger.json", proof, expected)
    if proof.first != 1 or proof.previous != FIRST:
        yield Mismatch("ledger.json", "first", str(proof.first), "1, the first line of the ledger")


def _end_faults(bundle: Bundle, start: LedgerProof | None, end: LedgerProof) -> Iterator[Mismatch]:
    if end.own not in end.entries:
        return
    expected: dict[str, object] = {"event": "ended", "session": bundle.plan().session}
    if (bundle.root / MANIFEST).is_file():
        expected["root_sha256"] = file_digest(bundle.root / MANIFEST)[0]
    if end.entries[end.own].verdict is not None and bundle.verdict_file.is_file():
        expected |= {"verdict": str(bundle.verdict().verdict), "exit_code": bundle.verdict().exit_code}
    yield from _differences("ledger.end.json", end, expected)
    if start is None or (end.first, end.previous) != (start.own + 1, start.head):
        yield Mismatch("ledger.end.json", "previous", end.previous, None if start is None else start.head)


def _differences(file: str, proof: LedgerProof, expected: dict[str, object]) -> Iterator[Mismatch]:
    said = json.loads(proof.entries[proof.own].model_dump_json())
    for name, value in expected.items():
        if said[name] != value:
            yield Mismatch(file, f"entries.{proof.own}.{name}", str(said[name]), str(value))
