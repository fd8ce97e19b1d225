"""Is the session itself whole: every planned launch there, in order, one at a time per lane?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from harness.evidence.journal import Seen, read_journals
from harness.evidence.journal import faults as journal_faults
from harness.evidence.manifest import MANIFEST, read_manifest
from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.records import Row
from harness.words import LaunchStatus, Step, Word


def rows(case: Case) -> Iterator[Row]:
    """Completeness, order, and whether the evidence is what was measured."""
    yield _complete(case)
    yield _order(case)
    yield _whole(case)


def _complete(case: Case) -> Row:
    missing = [i for i, x in case.launches.items() if not _has_ended(x)]
    done = len(case.launches) - len(missing)
    if missing:
        why = case.run.interrupted or "the harness ended before they did, or the selection left them out"
        word, reason = Word.VOID, f"{len(missing)} launches are missing or unfinished, from {missing[0]}: {why}"
    elif case.run.interrupted:
        word, reason = Word.VOID, f"the session was interrupted: {case.run.interrupted}"
    else:
        word, reason = Word.PASS, "every planned launch has a record with an end"
    return Row(
        name="session complete",
        control=f"{done} of {len(case.launches)}",
        unit="launches",
        word=word,
        reason=reason,
        sources=("plan.json", "run.json"),
    )


def _has_ended(launch: LaunchEvidence) -> bool:
    """An interrupted launch has an end too, but it is not the one that was planned."""
    record = launch.record
    return record is not None and record.end_ns is not None and record.status is not LaunchStatus.INTERRUPTED


def _order(case: Case) -> Row:
    """Launches of a lane never overlap, and run in the plan's order."""
    faults: list[tuple[str, tuple[str, ...]]] = []
    for lane in sorted({x.lane for x in case.plan.launches}):
        ran = [case.launches[x.id].record for x in sorted(case.plan.launches, key=lambda x: x.place) if x.lane == lane]
        for before, after in pairwise(
            r for r in ran if r is not None and r.argv
        ):  # what was never started overlaps nothing
            if before.end_ns is None or after.begin_ns < before.end_ns:
                told = f"{after.launch.id} began before {before.launch.id} had ended"
                faults.append((told, tuple(f"launches/{x.launch.id}/launch.json" for x in (before, after))))
    faults += [
        (fault, (f"launches/{launch.folder.id}/timeline.jsonl",))
        for launch in case.launches.values()
        if (fault := _course_fault(launch))
    ]
    return Row(
        name="launch order",
        word=Word.VOID if faults else Word.PASS,
        reason=faults[0][0]
        if faults
        else "launches of a lane ran in the plan's order, one at a time, each along the same course",
        sources=("plan.json", *(faults[0][1] if faults else ())),
    )


def _course_fault(launch: LaunchEvidence) -> str | None:
    """Steps are skipped or run, never reordered: a first 32K prompt after decode passes is not the first.

    Neither is a first 2K prompt after a longer one.
    """
    order = list(Step)
    begun = [
        (order.index(m.step), 0 if m.step is Step.PROBES else m.context_tokens or 0)
        for m in launch.marks
        if m.mark == "step begins" and m.step is not None
    ]
    for before, after in pairwise(begun):
        if after < before:
            names = [f"{order[step]}{f' {context}' if context else ''}" for step, context in (after, before)]
            return f"{launch.folder.id}: {' ran after '.join(names)}"
    return None


def _whole(case: Case) -> Row:
    """A log that lacks its end lacks errors and late compilations too, so nothing may pass on it.

    What somebody changed fails, as the chain of hashes is one of the hard invariants; what could not be written
    is a measurement that broke.
    """
    digests = read_manifest(case.manifest)
    seen = read_journals(case.bundle.root)
    noted = journal_faults(seen, digests) if seen is not None else []
    changed = _seal_faults(case.bundle.root / MANIFEST, digests) + [str(fault) for fault in noted if fault.tampered]
    faults = [str(fault) for fault in noted if not fault.tampered]
    for launch in case.launches.values():
        record = launch.record
        if record is None or record.log_sha256 is None:
            continue
        where = f"launches/{launch.folder.id}/{launch.folder.log_file.name}"
        if digests.get(where) != record.log_sha256:
            faults.append(f"{where} is not what the server's pipe gave: a full disk, or changed since")
        elif record.log_bytes and (not launch.clock.offsets or launch.clock.offsets[-1] < record.log_bytes):
            faults.append(f"{where}: its last lines have no time, so nobody can say when they came")
    return Row(
        name="evidence whole",
        control=f"{len(digests)} files",
        word=Word.FAIL if changed else Word.VOID if faults else Word.PASS,
        reason=_told(changed or faults) or _whole_text(seen),
        sources=(MANIFEST,),
    )


def _told(faults: list[str]) -> str:
    beyond = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0]}{beyond}" if faults else ""


def _whole_text(seen: Seen | None) -> str:
    """What the word rests on: hashes from the pipe, but for files that others wrote."""
    if seen is None:
        return "logs are whole and timed, and every file is as it was sealed"
    late = Counter(known.hashed for known in seen.files.values() if known.hashed)
    others = "; ".join(f"{plural} hashed {when}" for when, n in late.items() for plural in [f"{n} file{'s' * (n > 1)}"])
    return "logs are whole and timed, and every file is as it was written" + (f"; {others}" if others else "")


def _seal_faults(seal: Path, digests: dict[str, str]) -> list[str]:
    """Files that were changed, added or removed since the bundle was sealed; none where it was not."""
    if not seal.is_file():
        return []
    sealed = read_manifest(seal.read_text("utf-8"))
    changed = sorted(name for name in sealed.keys() | digests.keys() if sealed.get(name) != digests.get(name))
    return [f"{name} is not as it was sealed in {MANIFEST}" for name in changed]
