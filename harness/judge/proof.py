"""What log and folders prove about the compile caches of a launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.judge.late import WallClock, is_late_line, late_from
from harness.judge.read import LaunchEvidence
from harness.observe.jit.files import Listing, changes, in_triton
from harness.observe.log import Event, Kind
from harness.words import Cache, CacheProof

MISS = "miss"
FOLDERS = 3
"""Folders of caches that a reason names."""
OF_GRAPHS = ("vllm", "vllm-fork", "inductor")
"""Folders of compiled graphs: what is written there is the hit's affair."""
NAMED = ", and the log names a compilation"


@dataclass(frozen=True)
class Proof:
    """The proven state and the lines that prove it."""

    proof: CacheProof
    reason: str
    sources: tuple[str, ...]


def cache_proof(launch: LaunchEvidence) -> Proof:
    """Hits and misses of the start-up, against what the plan claims.

    A warm launch without a hit in its log is `unproven`: a mounted folder alone proves nothing. So is any
    launch whose folders were not listed before it started. A hit is of graphs; kernels have caches of their
    own, so that files say what became of them: `_graphs`, and `_eager` where an engine has no graph to look up.
    """
    assert launch.record is not None
    hits, misses, failed = (
        [e for e in launch.of_kind(kind) if launch.before_ready(e)]
        for kind in (Kind.CACHE_HIT, Kind.CACHE_MISS, Kind.CACHE_LOAD_FAILED)
    )
    sources = tuple(launch.place(e) for e in (hits[:1] + misses[:1] + failed[:1]))
    listings = launch.listings
    if "start" not in listings:
        return Proof(CacheProof.UNPROVEN, "the cache folders were not listed before the start", sources)
    sources += (f"launches/{launch.folder.id}/caches.json",)
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
        return _graphs(launch, listings, seen, sources)
    told = [e for e in launch.of_kind(Kind.EAGER) if launch.before_ready(e)]
    if not hits and told and any(c.kernel for c in changes({}, listings["start"])):
        return _eager(launch, listings, (launch.place(told[0]), *sources))
    return Proof(CacheProof.UNPROVEN, f"the log shows no use of a compile cache: {seen}", sources)


def _graphs(launch: LaunchEvidence, listings: Mapping[str, Listing], seen: str, sources: tuple[str, ...]) -> Proof:
    """A launch whose graphs were found, while kernels that are no part of a graph may have been compiled.

    Eight warm launches of vLLM 0.25.1 with CUDA graphs on an H200 found Triton's 404 files and wrote none. What
    Inductor wrote again lay in vLLM's own folder, nine files each, and proves nothing. What other libraries wrote may
    be a kernel or the index of their cache: it is told, and the hit decides, as where files do not tell.
    """
    since = _since(launch, listings)
    if since.missed:
        return Proof(CacheProof.RECOMPILED, seen + NAMED, (*sources, launch.place(since.missed[0])))
    if since.of_triton:
        return Proof(CacheProof.RECOMPILED, f"{seen}, {since.of_triton} of Triton written since", sources)
    if written := {name: n for name, n in since.of_others.items() if name not in OF_GRAPHS}:
        seen += f", 0 of Triton written since{_in_others(written)}"
    return Proof(CacheProof.WARM, seen, sources)


def _eager(launch: LaunchEvidence, listings: Mapping[str, Listing], sources: tuple[str, ...]) -> Proof:
    """What files of kernels prove of an eager launch that found some of Triton's.

    Triton compiles what it does not find, and writes it: new files of its, or a library's line of a miss,
    are a recompilation. Other libraries keep caches of their own and print nothing, so that a file of theirs
    may be a kernel: with one the launch is not called warm.
    """
    since = _since(launch, listings)
    reason = f"eager, so that only kernels are cached: {since.held} files of Triton at start"
    if since.unknown:
        return Proof(CacheProof.UNPROVEN, f"{reason}, and {since.unknown}", sources)
    reason += f", {since.of_triton} written since"
    if since.missed:
        reason, sources = reason + NAMED, (*sources, launch.place(since.missed[0]))
    if since.of_others:
        reason += _in_others(since.of_others)
    if since.of_triton or since.missed:
        return Proof(CacheProof.RECOMPILED, reason, sources)
    return Proof(CacheProof.UNPROVEN if since.of_others else CacheProof.WARM, reason, sources)


def _in_others(written: Mapping[str, int]) -> str:
    return f", and {sum(written.values())} in {', '.join(f'{name:.40}' for name in sorted(written)[:FOLDERS])}"


@dataclass(frozen=True)
class _Since:
    """What became of kernels between start and readiness."""

    held: int
    """Triton's files at start."""
    of_triton: int
    of_others: Mapping[str, int]
    """By cache."""
    missed: Sequence[Event]
    """A library's lines of a compilation."""
    unknown: str | None
    """Why files say nothing; None where they do."""


def _since(launch: LaunchEvidence, listings: Mapping[str, Listing]) -> _Since:
    """What was written is known at readiness alone, and by the files' times.

    Triton writes a kernel again under its old name, and of its old size, where the paths that it has noted are
    no longer right. Of a launch that never was ready, the end tells the same.
    """
    held = {path: entry for path, entry in listings["start"].items() if in_triton(path)}
    ready = listings.get("ready", listings.get("end") if launch.ready_ns is None else None)
    found = [c for c in changes(listings["start"], ready or {}) if c.may_be_compiled]
    of_triton = sum(in_triton(c.path) for c in found)
    written = Counter(c.cache for c in found if not in_triton(c.path))
    missed = [e for e in launch.log if _is_compilation(e) and launch.before_ready(e)]
    return _Since(len(held), of_triton, written, missed, _unknown(held, ready))


def _is_compilation(event: Event) -> bool:
    """Before readiness a library may print its progress and no miss."""
    if event.kind is Kind.KERNEL_PROGRESS:
        return True
    return event.kind is Kind.KERNEL_COMPILE and event.values["outcome"] == MISS


def _unknown(held: Listing, ready: Listing | None) -> str | None:
    """Why nothing is known of what was written since; None where it is known."""
    if ready is None:
        return "the cache folders were not listed at readiness"
    if gone := len(held.keys() - ready.keys()):
        return f"{gone} of them gone at readiness"
    if any(changed_ns is None for path in held for _, changed_ns in (held[path], ready[path])):
        return "without their times, so that one written again is not told from one that was found"
    return None


def late_compiles(launch: LaunchEvidence) -> list[Event]:
    """Lines of compilations that came late (DESIGN 2): of torch.compile, b12x and sparkinfer."""
    return _late(launch, Kind.CACHE_MISS, MISS)


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
    listings = launch.listings
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
