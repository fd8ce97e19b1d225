"""Which rank's process was gone before the others, from the samples of a server's processes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from harness.observe.log.process import TITLE, rank_order, titled_rank

ENGINE = f"{TITLE}EngineCore"
READINGS = 2
"""In so many readings without it must all others still be there: ends of one moment have no order."""


def vanished_worker(rows: Iterable[Sequence[Any]]) -> str | None:
    """`worker TP1 vanished (pid 123, seen last 3.2 s before the others)`; None where nobody is to blame.

    A process without resident memory is a zombie. A rank is the process of its title that was there first: a child that
    it forks bears the title too. Whoever goes once an engine has gone follows it, and tells nothing.

    Args:
        rows: As the host sampler writes them, by time, up to the stop: ns, `name:pid`, RSS in bytes, more.
    """
    names: dict[str, str] = {}
    since: dict[str, int] = {}
    pids: dict[str, str] = {}
    last_ns: dict[str, int] = {}
    gone: frozenset[str] = frozenset()
    readings = others_ns = 0
    for time_ns, reading in groupby(rows, key=lambda row: int(row[0])):
        sound = set()
        for _, process, rss, *_ in reading:
            title, _, pid = str(process).rpartition(":")
            since.setdefault(pid, time_ns)
            if (name := title if title.startswith(ENGINE) else titled_rank(title)) is not None:
                names[pid] = name
                pids[name] = min(pids.get(name, pid), pid, key=lambda p: (since[p], len(p), p))
            if rss:
                sound.add(pid)
        there = {name for name, pid in pids.items() if pid in sound}
        last_ns |= dict.fromkeys(there, time_ns)
        missing = frozenset(last_ns.keys() - there)
        if missing != gone:
            if (gone and readings >= READINGS) or any(name.startswith(ENGINE) for name in missing):
                break
            gone, readings = missing, 0
        readings, others_ns = readings + 1, time_ns
    others = [name for name in last_ns.keys() - gone if not name.startswith(ENGINE)]
    if not gone or not others or readings < READINGS:
        return None
    first = min(gone, key=lambda name: (last_ns[name], rank_order(name)))
    ahead_s = (others_ns - last_ns[first]) / 1e9
    return f"worker {first} vanished (pid {pids[first]}, seen last {ahead_s:.1f} s before the others)"
