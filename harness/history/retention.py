"""Which bundles may go: what is old, and what nothing refers to. Deciding and deleting are two steps."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BundleError
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import MANIFEST
from harness.history.anchors import Anchor
from harness.history.importing import bundles_in
from harness.history.index import Index
from harness.history.published import published
from harness.records import Plan


@dataclass(frozen=True)
class Decision:
    """What is to become of one bundle."""

    root: Path
    keep: bool
    why: str
    sha256: str | None = None
    """Root hash; None for a session that was never finished."""


@dataclass(frozen=True)
class _Sealed:
    root: Path
    plan: Plan
    started: str
    sha256: str


def decide(
    index: Index, results: Path, anchors: Sequence[Anchor], *, keep: int, nights_of: str | None = None
) -> list[Decision]:
    """Decide over every bundle below `results`, oldest first.

    Args:
        index: knows the change points' first nights.
        results: folder of bundles.
        anchors: the whole chain.
        keep: newest sessions per profile that stay; 0 = all.
        nights_of: only nightly sessions of this profile may go.
    """
    decided: list[Decision] = []
    sealed: list[_Sealed] = []
    for root in bundles_in([results]):
        try:
            sealed.append(_read(root))
        except BundleError as e:
            decided.append(Decision(root, keep=True, why=f"not looked into: {e}"))
    sealed.sort(key=lambda s: (s.started, s.plan.session))
    kept = dict(_kept(index, sealed, anchors, keep, nights_of))
    pool = _pooled([s.plan for s in sealed if s.sha256 in kept])
    for bundle in sealed:
        why = kept.get(bundle.sha256) or pool.get(bundle.sha256)
        decided.append(Decision(bundle.root, why is not None, why or "nothing refers to it", bundle.sha256))
    return decided


def delete(index: Index, decisions: Sequence[Decision]) -> Iterator[str]:
    """Delete what was decided against, from the disk and from the index; a line for each."""
    for decision in decisions:
        if decision.keep:
            continue
        size = sum(p.stat().st_size for p in decision.root.rglob("*") if p.is_file() and not p.is_symlink())
        shutil.rmtree(decision.root)
        with index.transaction() as sql:
            sql.execute("DELETE FROM sessions WHERE root_sha256 = ?", (decision.sha256,))
        root = (decision.sha256 or "")[:12]
        yield f"deleted {decision.root.name} ({size >> 20} MiB, root hash {root}): {decision.why}"


def _read(root: Path) -> _Sealed:
    import hashlib  # noqa: PLC0415

    manifest = root / MANIFEST
    if not manifest.is_file():
        raise BundleError("it was never finished")
    bundle = Bundle(root)
    return _Sealed(root, bundle.plan(), bundle.run().started_wall, hashlib.sha256(manifest.read_bytes()).hexdigest())


def _kept(
    index: Index, sealed: Sequence[_Sealed], anchors: Sequence[Anchor], keep: int, nights_of: str | None
) -> Iterator[tuple[str, str]]:
    """Root hash and reason of what stays for itself. Later reasons are the stronger ones."""
    by_profile: dict[str, list[_Sealed]] = {}
    for bundle in sealed:
        if nights_of is not None and (bundle.plan.night is None or bundle.plan.profile.name != nights_of):
            yield bundle.sha256, "no night of this profile"
        else:
            by_profile.setdefault(bundle.plan.profile.name, []).append(bundle)
    for profile, bundles in by_profile.items():
        newest = bundles[-keep:] if keep else bundles
        for bundle in newest:
            yield bundle.sha256, f"one of the {keep} newest of {profile}" if keep else "everything is kept"
        for plan in (b.plan for b in bundles[-1:]):
            for root in _first_nights(index, plan):
                yield root, "first nights of a change point"
    for root, where in published().items():
        yield root, f"published: {where}"
    for anchor in anchors:
        yield anchor.root_sha256, f"anchor {anchor.number} of {anchor.profile}"


def _first_nights(index: Index, newest: Plan) -> Iterator[str]:
    """The two nights with which each level of the newest night's series began."""
    from harness.judge.stats.changes import FEWEST_NIGHTS, LASTS, Night, change  # noqa: PLC0415

    if newest.night is None:
        return
    for series in newest.night.series:
        tonight = index.sql.execute(
            "SELECT s.root_sha256, m.mean, m.pairs, m.own_sd FROM metrics m JOIN sessions s USING (root_sha256) "
            "WHERE s.session = ? AND m.cell_sha256 = ? AND m.name = ?",
            (newest.session, series.cell_sha256, series.name),
        ).fetchone()
        points = [(p.root_sha256, Night(p.mean, p.pairs, p.own_sd)) for p in series.points]
        if tonight:
            points.append((tonight[0], Night(*tonight[1:])))
        if len(points) < FEWEST_NIGHTS:
            continue
        found = change([night for _, night in points], series=len(newest.night.series), smallest=0.0)
        for start in found.starts:
            yield from (root for root, _ in points[start : start + LASTS])


def _pooled(plans: Sequence[Plan]) -> Mapping[str, str]:
    """Root hashes that the plans took their noise and calibration from; what is kept for that alone keeps no more."""
    found: dict[str, str] = {}
    for plan in plans:
        sources = [root for past in plan.history for root in past.sources]
        sources += plan.calibration.sources if plan.calibration else ()
        for root in sources:
            found.setdefault(root, f"its noise stands in the plan of {plan.session}")
    return found
