"""Names of vLLM's processes, with the ranks that they carry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

DIMENSIONS = ("dp", "pp", "pcp", "tp", "dcp", "ep")
"""In the order in which vLLM builds a worker's name."""

_RANK = re.compile(r"_(DP|PP|PCP|TP|DCP|EP)(\d{1,9})(?!\d)")
_PLACE = re.compile(r"([A-Za-z]+) ?(\d+)")
_NUMBERED = re.compile(r"^(?P<role>[A-Za-z]+)(?: rank=|[_-])(?P<rank>\d{1,9})$")


@dataclass(frozen=True)
class Process:
    """A process by its role and ranks; a rank that the name does not tell is None."""

    name: str
    role: str
    """`Worker`, `EngineCore`, `APIServer`, ...; '' where a line has no prefix."""
    rank: int | None = None
    """A number without a dimension: `VllmWorker rank=3`, `EngineCore_1`, `ApiServer_2`."""
    dp: int | None = None
    pp: int | None = None
    pcp: int | None = None
    tp: int | None = None
    dcp: int | None = None
    ep: int | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Sorts ranks: the first one speaks for the others where each prints the same line."""
        return tuple(r or 0 for r in (self.dp, self.pp, self.pcp, self.tp, self.dcp, self.ep, self.rank))


@lru_cache(maxsize=4096)
def parse_process(name: str) -> Process:
    """Role and ranks of a name as it stands in a line's prefix."""
    if numbered := _NUMBERED.match(name):
        return Process(name, numbered["role"], rank=int(numbered["rank"]))
    ranks = {key.lower(): int(value) for key, value in _RANK.findall(name)}
    return Process(name, _RANK.sub("", name), **ranks)


def rank_name(name: str) -> str | None:
    """A worker's place as its name tells it: `TP2`, `PP1 TP2`, or `rank 2` where the name has a number alone.

    None for a process that is no rank of the model, and for one that has not been given its place yet.
    """
    process = parse_process(name)
    if "Worker" not in process.role:
        return None
    places = [f"{d.upper()}{n}" for d in DIMENSIONS if (n := getattr(process, d)) is not None]
    if places:
        return " ".join(places)
    return None if process.rank is None else f"rank {process.rank}"


def rank_order(name: str) -> tuple[tuple[str, int], ...]:
    """Sorts what `rank_name` gives: TP2 before TP10."""
    return tuple((what, int(number)) for what, number in _PLACE.findall(name))


TITLE = "VLLM::"
"""How vLLM begins the title of each of its processes; the rest is the name that its lines carry."""


def titled_rank(title: str) -> str | None:
    """The rank of a process by its title, `VLLM::Worker_TP1`; None where it is none's."""
    return rank_name(title.removeprefix(TITLE)) if title.startswith(TITLE) else None
