"""Values from several places, merged, each with the place it came from.

default < profile file < [smoke] table of the file < environment < option
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT = "default"


@dataclass
class Layers:
    """A tree of values and, per dotted key, its origin."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def add(self, tree: Mapping[str, Any], origin: str) -> None:
        """Lay `tree` over what is there. Tables merge; every other value replaces."""
        self._merge(self.values, tree, origin, "")

    def set(self, key: str, value: object, origin: str) -> None:
        """Lay one value, by its dotted key, over what is there."""
        tree: dict[str, Any] = {}
        branch = tree
        *parents, last = key.split(".")
        for part in parents:
            branch = branch.setdefault(part, {})
        branch[last] = value
        self.add(tree, origin)

    def origin(self, key: str) -> str:
        """Where the value of a dotted key came from; keys inside a list count as the list."""
        while key:
            if key in self.origins:
                return self.origins[key]
            key = key.rpartition(".")[0]
        return DEFAULT

    def _merge(self, into: dict[str, Any], tree: Mapping[str, Any], origin: str, prefix: str) -> None:
        for name, value in tree.items():
            key = f"{prefix}{name}"
            if isinstance(value, Mapping):
                if not isinstance(into.get(name), dict):
                    into[name] = {}
                self._merge(into[name], value, origin, f"{key}.")
            else:
                into[name] = value
                self.origins[key] = origin


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested mapping with its dotted key; lists are values."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
