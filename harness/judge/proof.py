"""What log and folders prove about the compile caches of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.judge.late import WallClock, is_late_line, late_from
from harness.judge.read import LaunchEvidence
from harness.observe.jit.files import Listing, changes, in_triton
from harness.observe.log import Event, Kind
from harness.words import Cache, CacheProof


@dataclass(frozen=True)
class Proof:
    """The proven state and the lines that prove it."""

    proof: CacheProof
    reason: str
    sources: tuple[str, ...]


def cache_proof(launch: LaunchEvidence) -> Proof:
    """Hits and misses of the start-up, against what the plan claims.

    A warm launch without a hit in its log is `unproven`: a mounted folder alone proves nothing. So is any
    launch whose folders were not listed before it started. An engine that says it is eager has no graph
    to look up and prints no hit; what its kernels need it looks up in Triton's folder, and whatever it
    does not find there it compiles and writes: such a launch is warm where it found files of kernels and
    wrote none, and recompiled where it wrote some.
    """
    assert launch.record is not None
    hits, misses, failed = (
        [e for e in launch.of_kind(kind) if launch.before_ready(e)]
        for kind in (Kind.CACHE_HIT, Kind.CACHE_MISS, Kind.CACHE_LOAD_FAILED)
    )
    sources = tuple(launch.place(e) for e in (hits[:1] + misses[:1] + failed[:1]))
    listings = launch.listings()
    if "start" not in listings:
        return Proof(CacheProof.UNPROVEN, "the cache folders were not listed before the start", sources)
    found = len(listings["start"])
    seen = f"{len(hits)} hits, {len(misses)} misses, {len(failed)} failed loads, {found} files at start"
    if launch.record.launch.cache is Cache.COLD:
        # A hit after the first miss is of what this launch wrote itself: another rank, or an equal graph.
        foreign = hits and (not misses or hits[0].line < misses[0].line)
        if found or foreign:
            return Proof(CacheProof.WARM, f"claimed cold, but {seen}", sources)
        return Proof(CacheProof.COLD, seen, sources)
    if failed or misses:
        return Proof(CacheProof.RECOMPILED, seen, sources)
    if hits and found:
        return Proof(CacheProof.WARM, seen, sources)
    if not hits and (eager := launch.of_kind(Kind.EAGER)):
        kernels, written = _kernel_files(listings)
        if kernels:
            proof = CacheProof.RECOMPILED if written else CacheProof.WARM
            reason = (
                f"eager, so that only kernels are cached: {kernels} files of Triton at start, {written} written since"
            )
            return Proof(proof, reason, (launch.place(eager[0]),))
    return Proof(CacheProof.UNPROVEN, f"the log shows no use of a compile cache: {seen}", sources)


def _kernel_files(listings: Mapping[str, Listing]) -> tuple[int, int]:
    """Triton's files before the start, and those of them and beside them that were written until readiness.

    Without a listing at readiness nothing is known of what was written, and no file counts.
    """
    start, ready = ({p: e for p, e in listings.get(when, {}).items() if in_triton(p)} for when in ("start", "ready"))
    return (len(start), len(list(changes(start, ready)))) if "ready" in listings else (0, 0)


def late_compiles(launch: LaunchEvidence) -> list[Event]:
    """Lines of compilations that came late (DESIGN 2): of torch.compile, b12x and sparkinfer."""
    return _late(launch, Kind.CACHE_MISS, "miss")


def late_loads(launch: LaunchEvidence) -> list[Event]:
    """Lines of compiled code that was first loaded from a cache, and late."""
    return _late(launch, Kind.CACHE_HIT, "disk-hit")


def _late(launch: LaunchEvidence, kind: Kind, outcome: str) -> list[Event]:
    since = late_from(launch)
    found = (
        e for e in launch.log if e.kind is kind or (e.kind is Kind.KERNEL_COMPILE and e.values["outcome"] == outcome)
    )
    return [e for e in found if is_late_line(launch, since, e)]


def late_files(launch: LaunchEvidence) -> list[str]:
    """Cache files that appeared late, by their times; without times, between readiness and the end."""
    listings = launch.listings()
    since, clock = late_from(launch), WallClock(launch.marks)
    end = listings.get("end", {})
    found = set()
    for path, (_, changed_ns) in end.items():
        if changed_ns is None:
            late = path not in listings.get("ready", end)
        else:
            late = path not in listings.get("start", end) and since.is_late(clock.monotonic_ns(changed_ns))
        if late:
            found.add(path)
    return sorted(found)
