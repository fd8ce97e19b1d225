"""What a night runs: today's stack against the anchor, or against the profile's control where there is none."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config.layers import Layers
from harness.config.load import Loaded, load_profile
from harness.errors import BundleError, SetupFailure
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import root_hash
from harness.history.anchors import Anchor, anchor_of
from harness.history.entry import host_values, software_sha256
from harness.history.importing import bundles_in
from harness.records import HostFacts, Lock, Plan, Verdict
from harness.records.history import Night
from harness.session.selection import Selection, profile_name, select
from harness.words import Arm, Word


@dataclass(frozen=True)
class Chosen:
    """A night's session to be."""

    selection: Selection
    night: Night
    anchor: Anchor | None
    told: str
    """What is measured against what."""


def choose(arguments: argparse.Namespace, date: str) -> Chosen:
    """Resolve a night's command line: `[nightly] pairs` unless pairs were asked for, and the anchor as control.

    Raises:
        ConfigError: a name, file or value cannot be used; the chain of anchors is broken.
        SetupFailure: the anchor's bundle is gone or was changed.
    """
    name, _ = profile_name(arguments.profile)
    pairs = load_profile(name, smoke=arguments.smoke).model.nightly.pairs
    selection = select(arguments, below=[("plan.pairs", pairs, "[nightly] pairs")])
    anchor = anchor_of(selection.profile.model.name)
    candidate = selection.candidate.model.name
    if anchor is None:
        night = Night(date=date, anchor=None, anchor_session=None)
        why = "no anchor was accepted yet (`qualify history accept SESSION --reason TEXT`)"
        told = f"{candidate} against the control of the profile, {selection.control.model.name}: {why}"
        return Chosen(selection, night, None, told)
    bundle = anchor_bundle(anchor)
    lock = bundle.stack_lock_dir(Arm.CANDIDATE)
    control = Loaded(bundle.plan().candidate, Layers(), None)
    selection = replace(selection, control=control, control_lock=lock if lock.is_dir() else None)
    night = Night(date=date, anchor=anchor.sha256, anchor_session=anchor.session)
    told = (
        f"{candidate} against anchor {anchor.number}: {anchor.stack} of {anchor.session}, accepted {anchor.when[:10]}"
    )
    return Chosen(selection, night, anchor, f"{told} ({anchor.reason})")


def anchor_bundle(anchor: Anchor) -> Bundle:
    """The bundle of an anchor, as it was accepted.

    Raises:
        SetupFailure: it is gone, or its evidence was changed.
    """
    bundle = Bundle(Path(anchor.place))
    mend = "put it back, or accept another anchor"
    if not bundle.plan_file.is_file():
        raise SetupFailure(f"anchor {anchor.number}: its bundle {anchor.place} is gone; {mend}")
    if root_hash(bundle.root) != anchor.root_sha256:
        raise SetupFailure(f"anchor {anchor.number}: the evidence in {anchor.place} is not what was accepted; {mend}")
    return bundle


def check_anchor(anchor: Anchor | None, plan: Plan, locks: Mapping[Arm, Lock]) -> None:
    """The control is what was accepted: an engine of this host that was changed since is not.

    Raises:
        SetupFailure: it is another thing by now.
    """
    if anchor is None:
        return
    lock = locks[Arm.CONTROL]
    if software_sha256(lock, plan.control) == anchor.software_sha256:
        return
    if lock.image is None and lock.engine_version != anchor.engine_version:
        what = f"it was vLLM {anchor.engine_version}, and the engine of this host is {lock.engine_version} by now"
        mend = 'a profile with launcher = "docker" keeps its anchor; else accept a session of today\'s engine'
    else:
        what, mend = "image, model, flags or environment are other ones by now", "mend that, or accept another anchor"
    raise SetupFailure(f"anchor {anchor.number} ({anchor.session}) cannot be run again: {what}; {mend}")


def finished(results: Path, chosen: Chosen, host: HostFacts) -> tuple[Bundle, Verdict] | None:
    """The session that this night has already: ended by itself, on this host, and not broken in its measurement."""
    found = None
    for root in bundles_in([results]):
        bundle = Bundle(root)
        try:
            plan, run, verdict = bundle.plan(), bundle.run(), bundle.verdict()
        except BundleError:
            continue  # aborted before its verdict, or not of this harness
        same = plan.night is not None and plan.night.date == chosen.night.date
        mine = same and _what(plan) == (chosen.selection.profile.model.name, chosen.selection.candidate.model.name)
        ended = run.ended_wall is not None and run.interrupted is None
        sound = verdict.verdict not in (Word.VOID, Word.SETUP_FAILURE)
        if mine and ended and sound and host_values(run.host) == host_values(host):
            found = bundle, verdict
    return found


def _what(plan: Plan) -> tuple[str, str]:
    return plan.profile.name, plan.candidate.name
