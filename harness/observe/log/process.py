"""Names of vLLM's processes, with the ranks that they carry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

DIMENSIONS = ("dp", "pp", "pcp", "tp", "dcp", "ep")
"""In the order in which vLLM builds a worker's name."""

_RANK = re.compile(r"_(DP|PP|PCP|TP|DCP|EP)(\d{1,9})(?!\d)")
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
