"""What of a bundle is published, once the bundle is what it says that it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import BundleError, ConfigError
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import MANIFEST
from harness.evidence.mismatch import Mismatch
from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.publish.body import Entry
from harness.records import Verdict
from harness.report.launches import harness_text
from harness.report.markdown import About, comment
from harness.report.model import why
from harness.stack.record import Disposition, LockedHead
from harness.words import Arm

Check = Callable[[Case, Verdict], Sequence[Mismatch]]
"""Says where a bundle is not what it says; empty where it is."""

NAMED = 5
"""Mismatches that an error names."""


@dataclass(frozen=True)
class Target:
    """Where to."""

    repository: str
    """OWNER/NAME."""
    number: int
    """Of the pull request."""

    def __str__(self) -> str:
        """As GitHub writes it."""
        return f"{self.repository}#{self.number}"


@dataclass(frozen=True)
class Publication:
    """What is to be said about a pull request."""

    profile: str
    entry: Entry
    text: str
    """The report."""
    reason: str
    """Why the verdict is what it is, in one line."""


def sealed(case: Case, verdict: Verdict) -> list[Mismatch]:
    """Files that are not as the manifest says, and a verdict of other evidence."""
    try:
        said = _digests((case.bundle.root / MANIFEST).read_text("utf-8", "surrogateescape"))
    except OSError:
        return [Mismatch(MANIFEST, "file", "the bundle is sealed", None)]
    found = _digests(case.manifest)
    differing = sorted(name for name in said.keys() | found.keys() if said.get(name) != found.get(name))
    mismatches = [Mismatch(name, "SHA-256", said.get(name), found.get(name)) for name in differing]
    again = judge_case(case)
    if verdict.evidence_root_sha256 != again.evidence_root_sha256:
        root = again.evidence_root_sha256
        mismatches.append(Mismatch("verdict.json", "evidence_root_sha256", verdict.evidence_root_sha256, root))
    elif verdict != again:
        mismatches.append(_first_difference(verdict.model_dump(mode="json"), again.model_dump(mode="json")))
    return mismatches


def _first_difference(said: Any, found: Any, field: str = "") -> Mismatch:
    """The first field in which a verdict is another one when it is derived again."""
    if isinstance(said, dict) and isinstance(found, dict):
        key = next(k for k in [*said, *found] if k not in said or k not in found or said[k] != found[k])
        return _first_difference(said.get(key), found.get(key), f"{field}.{key}")
    if isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        place = next(i for i, (a, b) in enumerate(zip(said, found, strict=True)) if a != b)
        return _first_difference(said[place], found[place], f"{field}.{place}")
    if isinstance(said, list) and isinstance(found, list):
        return Mismatch("verdict.json", field[1:], f"{len(said)} entries", f"{len(found)} when derived again")
    return Mismatch("verdict.json", field[1:], str(said), f"{found} when derived again")


def publication(
    bundle: Bundle, target: Target, about: About, *, allow_dirty: bool = False, check: Check = sealed
) -> Publication:
    """What to publish of a bundle.

    Raises:
        BundleError: it cannot be read, or is not what it says.
        ConfigError: the harness that measured is not identified, or the pull request's head was not measured.
    """
    case, verdict = read_case(bundle), bundle.verdict()
    if found := check(case, verdict):
        shown = "".join(f"\n  {one}" for one in found[:NAMED])
        beyond = f"\n  and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise BundleError(
            f"{bundle.root} is not what it says, so it is not published:{shown}{beyond}\n"
            "`qualify judge` derives a verdict again; evidence that was changed stays changed"
        )
    fault = harness_text(case)[1]
    if fault and not allow_dirty:
        raise ConfigError(
            f"{bundle.root}: harness: {fault}; measure with a committed harness, or publish it marked as that with "
            "--allow-dirty"
        )
    head = measured_head(case, target)
    return Publication(
        profile=case.plan.profile.name,
        entry=Entry(
            head=head.head or "",
            root=verdict.evidence_root_sha256,
            ended=case.run.ended_wall or case.run.started_wall,
            verdict=str(verdict.verdict),
            session=case.run.session,
        ),
        text=comment(case, verdict, about),
        reason=why(case, verdict),
    )


def measured_head(case: Case, target: Target) -> LockedHead:
    """The pull request's head in the candidate's lock: never typed by hand.

    Raises:
        ConfigError: the candidate was not built with that pull request.
    """
    lock = case.stack_locks.get(Arm.CANDIDATE)
    if lock is None:
        raise ConfigError(
            f"{case.bundle.root}: the candidate has no lock (locks/candidate/lock.json), so no head of {target} was "
            "measured; a stack with [[components]] and heads has one"
        )
    every = [(_repository(c.repository), h) for c in lock.components for h in c.heads]
    used = [(name, h) for name, h in every if h.head and h.disposition not in UNUSED]
    for name, head in used:
        if (name, head.pr) == (target.repository.lower(), target.number):
            return head
    there = ", ".join(f"{name}#{head.pr}" for name, head in used) or "no pull request at all"
    raise ConfigError(f"{case.bundle.root}: the candidate was not built with {target}: its lock holds {there}")


UNUSED = (Disposition.SUPERSEDED, Disposition.LEFT_OUT)
"""Heads that a lock names and that are not in the image."""


def _repository(address: str) -> str:
    """`owner/name` of https, ssh and scp addresses and of folders."""
    path = address.rstrip("/").removesuffix(".git").replace(":", "/")
    return "/".join(path.split("/")[-2:]).lower()


def _digests(manifest: str) -> dict[str, str]:
    lines = (line.partition("  ") for line in manifest.splitlines())
    return {name: digest for digest, _, name in lines}
