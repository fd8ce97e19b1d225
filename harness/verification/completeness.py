"""The bundle against its own plan: nothing left out without a reason, nothing that nobody planned, nothing swapped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from harness.checks.record import CheckDir
from harness.config.checks import Check
from harness.config.model import planned_checks
from harness.errors import ConfigError
from harness.evidence.bundle import LaunchDir, read_lines, read_record
from harness.evidence.mismatch import Mismatch
from harness.judge.looks import first_look
from harness.records import CheckRecord, PlannedLaunch
from harness.records.statistics import Look, Rerun
from harness.session.plan import make_plan
from harness.stack.reading import read_lock
from harness.stack.record import LOCK_FILE
from harness.verification.differences import differences
from harness.verification.subject import Found, Subject
from harness.words import Arm


def check_completeness(subject: Subject) -> Found:
    """Plan, locks, launches and source checks.

    Raises:
        BundleError: a record of them cannot be read.
    """
    mismatches = [m for part in (_plan, _locks, _folders, _launches, _order, _looks, _checks) for m in part(subject)]
    ran = [x for x in subject.plan.possible if subject.bundle.launch(x.id).record_file.is_file()]
    told = f"{len(ran)} of {len(subject.plan.launches)} planned launches have a record"
    left_out = sorted({r for x in subject.plan.launches if x not in ran and (r := _reason(subject, x)) is not None})
    return Found(tuple(mismatches), ("; ".join([told, *left_out]),))


def _plan(subject: Subject) -> Iterator[Mismatch]:
    """A profile and a seed give one plan: whoever moves a launch, or a metric that decides, moves away from it."""
    plan = subject.plan
    profile = plan.profile.model_copy(update={"plan": plan.profile.plan.model_copy(update={"seed": plan.seed})})
    try:
        again = make_plan(plan.session, profile, plan.control, plan.candidate, smoke=plan.smoke)
    except ConfigError as e:
        yield Mismatch("plan.json", "profile", "a plan was made of it", f"refused: {e}")
        return
    # A field that the harness of the session did not know yet is none that anybody moved.
    fields = {"launches", "reruns", "primary_metrics", "looks"} & plan.model_fields_set
    said, found = (x.model_dump(mode="json", include=fields) for x in (plan, again))
    for field, one, other in differences(said, found):
        yield Mismatch("plan.json", field, one, f"{other} by its own profile and seed")
    run = subject.bundle.run()
    if run.session != plan.session:
        yield Mismatch("run.json", "session", run.session, f"{plan.session} in plan.json")


def _locks(subject: Subject) -> Iterator[Mismatch]:
    bundle = subject.bundle
    for arm in Arm:
        file = bundle.lock_file(arm)
        name = f"locks/{arm}.json"
        if not file.is_file():
            yield Mismatch(name, "file", "every arm has a lock", None)
            continue
        lock = bundle.lock(arm)
        for field, said, found in (("arm", lock.arm, arm), ("stack", lock.stack, subject.plan.stack(arm).name)):
            if said != found:
                yield Mismatch(name, field, said, found)
        if lock.known_answers != bundle.truth_file(arm).is_file():
            rule = "no rule beside it" if lock.known_answers else "a rule beside it"
            yield Mismatch(name, "known_answers", str(lock.known_answers), rule)
        locked = lock.image.lock_sha256 if lock.image else None
        folder = bundle.stack_lock_dir(arm)
        if locked is None and not (folder / LOCK_FILE).is_file():
            continue
        if any(name.startswith(f"locks/{arm}/") for name in subject.originals):
            continue  # the lock's hashes are those of the originals
        try:
            found = read_lock(folder).sha256
        except ConfigError as e:
            yield Mismatch(
                f"locks/{arm}/{LOCK_FILE}", "content", "the lock of the arm's image", str(e).removeprefix(f"{folder}/")
            )
            continue
        if found != locked:
            yield Mismatch(name, "image.lock_sha256", locked, found)


def _folders(subject: Subject) -> Iterator[Mismatch]:
    """Folders that the plan does not know."""
    planned = {x.id for x in subject.plan.possible}
    for top, known in (("launches", planned), ("checks", {c.name for c in _planned_checks(subject)})):
        folder = subject.root / top
        there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        for name in sorted(there - known):
            yield Mismatch(f"{top}/{name}", "folder", None, "there, though plan.json names no such one")


def _launches(subject: Subject) -> Iterator[Mismatch]:
    for launch in subject.plan.possible:
        folder = subject.bundle.launch(launch.id)
        name = f"launches/{launch.id}"
        record = folder.record()
        if record is None:
            if _reason(subject, launch) is None:
                yield Mismatch(f"{name}/launch.json", "file", "planned, and nothing says why it was not run", None)
            elif folder.root.is_dir() and not _only_skipped(folder):
                yield Mismatch(f"{name}/launch.json", "file", "its folder holds evidence", None)
            continue
        said, found = (x.model_dump(mode="json") for x in (launch, record.launch))
        for field, one, other in differences(said, found):
            yield Mismatch(f"{name}/launch.json", f"launch.{field}", other, f"{one} in plan.json")
        if record.log_sha256 is not None:
            log = f"{name}/{folder.log_file.name}"
            if (digest := subject.digests.get(log)) != record.log_sha256:
                yield Mismatch(log, "SHA-256 of what the server's pipe gave", record.log_sha256, digest)
            if log not in subject.originals and (size := subject.files.get(log)) != record.log_bytes:
                yield Mismatch(log, "bytes", str(record.log_bytes), None if size is None else str(size))


def _order(subject: Subject) -> Iterator[Mismatch]:
    for lane in sorted({x.lane for x in subject.plan.launches}):
        mine = [x for x in subject.plan.possible if x.lane == lane]
        records = [r for x in mine if (r := subject.bundle.launch(x.id).record()) is not None and r.argv]
        for before, after in pairwise(records):
            if after.begin_ns < before.begin_ns:
                yield Mismatch(
                    f"launches/{after.launch.id}/launch.json",
                    "begin_ns",
                    str(after.begin_ns),
                    f"before {before.launch.id}, which the plan has run first",
                )


def _looks(subject: Subject) -> Iterator[Mismatch]:
    """Whether a mode goes on is decided by its first pairs, and by nobody."""
    for mode in dict.fromkeys(x.mode for x in subject.plan.launches if x.look > 1):
        file = subject.bundle.look_file(mode)
        if file.is_file():
            said, found = (
                x.model_dump(mode="json") for x in (read_record(file, Look), first_look(subject.bundle, mode))
            )
            for field, one, other in differences(said, found):
                yield Mismatch(f"looks/{mode}.json", field, one, f"{other} by the evidence of the first pairs")


def _checks(subject: Subject) -> Iterator[Mismatch]:
    run = subject.bundle.run()
    for check in _planned_checks(subject):
        for arm in Arm:
            folder = CheckDir(subject.bundle, check, arm)
            name = f"checks/{check.name}/{arm}/check.json"
            record = folder.record()
            if record is None:
                if not (run.selection or run.interrupted):
                    yield Mismatch(name, "file", "planned, and nothing says why it was not run", None)
                continue
            for field, said, found in (("check.name", record.check.name, check.name), ("arm", record.arm, arm)):
                if said != found:
                    yield Mismatch(name, field, said, found)
            kept = ((folder.output_file, record.output_sha256), (folder.report_file, record.report_sha256))
            for path, sha256 in kept:
                if path is None or sha256 is None:
                    continue
                file = path.relative_to(subject.root).as_posix()
                if (digest := subject.digests.get(file)) != sha256:
                    yield Mismatch(file, "SHA-256 of what the check left", sha256, digest)


def _planned_checks(subject: Subject) -> tuple[Check, ...]:
    plan = subject.plan
    try:
        return planned_checks(plan.profile, plan.control, plan.candidate)
    except ConfigError:
        return ()  # `_plan` has said so


def _reason(subject: Subject, launch: PlannedLaunch) -> str | None:
    """Why a launch has no record, in the words of what says so; None where nothing does."""
    run, look_file = subject.bundle.run(), subject.bundle.look_file(launch.mode)
    if launch.again_of is not None and not _is_to_be_replaced(subject, launch.again_of):
        return "no pair had to be run once more"
    if run.interrupted:
        return f"the others were not run: {run.interrupted}"
    if launch.look > 1:
        if not look_file.is_file() or not read_record(look_file, Look).goes_on:
            return f"{launch.mode} needed no second look"
        return None
    if run.selection:
        return f"the selection ({run.selection}) left others out"
    folder = subject.bundle.launch(launch.id)
    if not folder.root.is_dir() or not _only_skipped(folder):
        return None
    return next(c.message or c.outcome for c in read_lines(folder.checks_file, CheckRecord))


def _is_to_be_replaced(subject: Subject, launch_id: str) -> bool:
    """True for a launch of a pair that was found void; the judge derives again whether it was."""
    files = [f for x in subject.plan.launches if (f := subject.bundle.rerun_file(x.id)).is_file()]
    return any(launch_id in read_record(file, Rerun).pair for file in files)


def _only_skipped(folder: LaunchDir) -> bool:
    """True where nothing but checks that did not pass tells of a launch."""
    files = [p for p in folder.root.rglob("*") if p.is_file()]
    if files != [folder.checks_file]:
        return False
    outcomes = [c.outcome for c in read_lines(folder.checks_file, CheckRecord)]
    return bool(outcomes) and "passed" not in outcomes
