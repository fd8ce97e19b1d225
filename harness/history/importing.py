"""Bundles into the index: each in a transaction of its own, each refused by name where it is not what it says."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.errors import BundleError, QualifyError
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import MANIFEST, manifest_text
from harness.history.entry import Entry, Values, read_entry
from harness.history.index import Index, open_index
from harness.judge.verdict import Judged, judged
from harness.paths import history_file, results_root
from harness.records import MEASUREMENT_VERSION


@contextlib.contextmanager
def opened(notes: list[str] | None = None) -> Iterator[Index]:
    """The user's index; one that was broken is made again from the bundles below results/, and said so in `notes`.

    Raises:
        ConfigError: a newer harness made it.
        SetupFailure: it cannot be opened.
    """
    file = history_file()
    with open_index(file) as index:
        if index.moved is not None:
            told = [f"{file} was broken or of an older schema: it lies in {index.moved.name} now, and is made again"]
            told += import_bundles(index, [results_root()])
            if notes is not None:
                notes += told
        yield index


def import_bundles(index: Index, places: Sequence[Path]) -> list[str]:
    """Import every bundle at or below these folders; one line per bundle that was new or left out, then the sum."""
    lines: list[str] = []
    new = known = left = 0
    for root in bundles_in(places):
        try:
            told = import_bundle(index, Bundle(root))
        except QualifyError as e:
            lines.append(f"left out: {root.name}: {e}")
            left += 1
            continue
        if told is None:
            known += 1
        else:
            lines.append(told)
            new += 1
    return [*lines, f"{new} imported, {known} known already, {left} left out"]


def bundles_in(places: Iterable[Path]) -> list[Path]:
    """Folders with a plan.json: the places themselves, or what lies directly below them. A link is no second bundle."""
    found: dict[Path, None] = {}
    for place in places:
        inside = [place] if (place / "plan.json").is_file() else sorted(p.parent for p in place.glob("*/plan.json"))
        for root in inside:
            found[root.resolve()] = None
    return list(found)


def import_bundle(index: Index, bundle: Bundle, found: Judged | None = None) -> str | None:
    """Import one; what was taken, or None where the index has it already.

    A verdict that lies in the bundle is not evidence, and never taken. What this process has judged already (`found`)
    is, as long as the evidence is still the one that it judged.

    Raises:
        BundleError: unfinished, not what its manifest says, of another measurement version, or unreadable.
    """
    sealed = bundle.root / MANIFEST
    if not sealed.is_file():
        raise BundleError(f"it has no {MANIFEST}: the session was never finished")
    root = hashlib.sha256(sealed.read_bytes()).hexdigest()
    if index.sql.execute("SELECT 1 FROM sessions WHERE root_sha256 = ?", (root,)).fetchone():
        return None
    _check_manifest(bundle.root, sealed.read_text("utf-8", "replace"))
    plan = bundle.plan()
    if plan.measurement != MEASUREMENT_VERSION:
        raise BundleError(f"measurement version {plan.measurement}, and this harness measures by {MEASUREMENT_VERSION}")
    same = index.sql.execute("SELECT root_sha256 FROM sessions WHERE session = ?", (plan.session,)).fetchone()
    if same:
        raise BundleError(f"session {plan.session} is there with other evidence (root hash {same[0][:12]})")
    entry = read_entry(found or judged(bundle))
    if entry.session["root_sha256"] != root:
        raise BundleError("its evidence changed while it was read")
    if not _insert(index, entry, root):
        return None
    e = entry.session
    return f"{e['session']}: {e['kind']}, {e['verdict']}, {len(entry.metrics)} metrics"


def _check_manifest(root: Path, sealed: str) -> None:
    said, found = (_digests(text) for text in (sealed, manifest_text(root)))
    wrong = sorted(name for name in said.keys() | found.keys() if said.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        how = "is missing" if name not in found else "was added" if name not in said else "has another SHA-256"
        more = f", and {len(wrong) - 1} files more" if len(wrong) > 1 else ""
        raise BundleError(f"it is not what {MANIFEST} says: {name} {how}{more}")


def _digests(manifest: str) -> dict[str, str]:
    return {name: digest for digest, _, name in (line.partition("  ") for line in manifest.splitlines())}


def _insert(index: Index, entry: Entry, root: str) -> bool:
    """False where another command was quicker."""
    with index.transaction() as sql:
        if sql.execute("SELECT 1 FROM sessions WHERE root_sha256 = ?", (root,)).fetchone():
            return False
        key: Values = {"root_sha256": entry.session["root_sha256"]}
        index.insert("sessions", entry.session | {"host": host_row(index, entry.host, make=True)})
        for arm in entry.arms:
            index.insert("arms", key | arm.values)
            of_arm = key | {"arm": arm.values["arm"]}
            for component in arm.components:
                index.insert("components", of_arm | component.values)
                for head in component.heads:
                    index.insert("heads", of_arm | {"component": component.values["component"]} | head)
        for metric in entry.metrics:
            number = index.insert("metrics", key | metric.values)
            for place, ratio in enumerate(metric.ratios):
                index.insert("ratios", {"metric": number, "place": place, "log_ratio": ratio})
    return True


def host_row(index: Index, host: Values, *, make: bool = False) -> int | None:
    """Number of a host in the index; None where it is not there and is not to be made."""
    found = index.sql.execute(
        "SELECT id FROM hosts WHERE host_id IS ? AND class_sha256 = ?", (host["host_id"], host["class_sha256"])
    ).fetchone()
    if found:
        return int(found[0])
    return index.insert("hosts", host) if make else None
