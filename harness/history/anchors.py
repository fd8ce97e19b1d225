"""Anchors: the builds that nights are measured against, each accepted by somebody for a reason.

They are no part of the index, which can be made again from bundles: nobody's decision is in a bundle. The file
beside it only grows, and each record holds the hash of the one before it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from pydantic import ValidationError

from harness.config.strict import Strict
from harness.errors import BundleError, ConfigError
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import root_hash
from harness.history.entry import software_sha256
from harness.paths import state_root
from harness.words import Arm, LaunchStatus, Word


class Anchor(Strict):
    """One accepted build."""

    number: int
    """From 1, over all profiles."""
    profile: str
    session: str
    """Its candidate is the anchor."""
    root_sha256: str
    place: str
    """Folder of the bundle when it was accepted."""
    stack: str
    software_sha256: str
    engine_version: str
    reason: str
    who: str
    when: str
    """UTC, ISO 8601."""
    verdict: str
    previous_sha256: str | None
    """Of the record before this one; None for the first."""

    @property
    def sha256(self) -> str:
        """Hash of this record."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def anchors_file() -> Path:
    """Where they are kept."""
    return state_root() / "anchors.jsonl"


def read_anchors(file: Path | None = None) -> list[Anchor]:
    """Every anchor there ever was, oldest first.

    Raises:
        BundleError: a record was changed, or one is missing.
    """
    file = file or anchors_file()
    found: list[Anchor] = []
    for number, line in enumerate(file.read_bytes().splitlines() if file.is_file() else (), 1):
        try:
            anchor = Anchor.model_validate_json(line)
        except ValidationError as e:
            fault = e.errors(include_url=False)[0]
            raise BundleError(
                f"{file}:{number}: no anchor: `{'.'.join(map(str, fault['loc']))}`: {fault['msg']}"
            ) from None
        if anchor.previous_sha256 != (found[-1].sha256 if found else None) or anchor.number != number:
            raise BundleError(f"{file}:{number}: does not follow the record before it: the chain was edited")
        found.append(anchor)
    return found


def anchor_of(profile: str) -> Anchor | None:
    """The last accepted anchor of a profile; None where none was accepted.

    Raises:
        BundleError: the chain is broken.
    """
    return next((a for a in reversed(read_anchors()) if a.profile == profile), None)


def accept(bundle: Bundle, *, reason: str, who: str, when: str) -> Anchor:
    """Make a session's candidate the anchor of its profile.

    Raises:
        ConfigError: there is no reason, or the session shows nothing that could be an anchor.
        BundleError: the bundle or the chain cannot be read.
    """
    if not reason.strip():
        raise ConfigError("--reason is empty; say why this build is the one to measure against")
    plan, verdict = bundle.plan(), bundle.verdict()
    root = root_hash(bundle.root)
    if root != verdict.evidence_root_sha256:
        raise BundleError(
            f"{bundle.root}: the evidence is not what its verdict was derived from; run `qualify judge` on it"
        )
    if verdict.verdict in (Word.VOID, Word.SETUP_FAILURE):
        raise ConfigError(
            f"{plan.session} came to {verdict.verdict}: it measured nothing that nights could be held against"
        )
    served = [r for x in plan.launches if x.arm is Arm.CANDIDATE and (r := bundle.launch(x.id).record())]
    if not any(r.status is LaunchStatus.COMPLETED for r in served):
        raise ConfigError(f"no launch of the candidate of {plan.session} ran to its end; an anchor must serve")
    lock = bundle.lock(Arm.CANDIDATE)
    chain = read_anchors()
    anchor = Anchor(
        number=len(chain) + 1,
        profile=plan.profile.name,
        session=plan.session,
        root_sha256=root,
        place=str(bundle.root),
        stack=lock.stack,
        software_sha256=software_sha256(lock, plan.candidate),
        engine_version=lock.engine_version,
        reason=reason.strip(),
        who=who,
        when=when,
        verdict=str(verdict.verdict),
        previous_sha256=chain[-1].sha256 if chain else None,
    )
    _append(anchors_file(), anchor)
    return anchor


def _append(file: Path, anchor: Anchor) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        stream.write(anchor.model_dump_json().encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
