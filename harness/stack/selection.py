"""Leave-one-out: which heads of a stack a lock does without, so that an effect can be given to one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from harness.config.model import Stack
from harness.errors import ConfigError

HEAD = re.compile(r"(?:(?P<component>[a-z0-9][a-z0-9\-]*)?#)?(?P<pr>[0-9]{1,10})")


@dataclass(frozen=True)
class Left:
    """Heads that are left out, as (component, pull request)."""

    out: tuple[tuple[str, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """As people write them."""
        return tuple(f"{component}#{pr}" for component, pr in self.out)

    @property
    def names_in_path(self) -> tuple[str, ...]:
        """As parts of a folder's name, which says what is not in it."""
        return ("without", *(f"{component}-{pr}" for component, pr in self.out)) if self.out else ()


def left_out(stack: Stack, values: Iterable[str]) -> Left:
    """The heads that `--without` names: 270, #270 or vllm#270.

    Raises:
        ConfigError: no head of the stack is meant, or more than one.
    """
    superseded = {(c.name, pr): by for c in stack.components for pr, by in c.superseded.items()}
    heads = [(c.name, h.pr) for c in stack.components for h in c.heads]
    out: list[tuple[str, int]] = []
    for value in values:
        match = HEAD.fullmatch(value)
        if match is None:
            raise ConfigError(f"--without {value}: write the number of a pull request, as 270 or vllm#270")
        meant = [h for h in heads if h[1] == int(match["pr"]) and match["component"] in (None, h[0])]
        if not meant:
            known = ", ".join(f"{component}#{pr}" for component, pr in heads)
            raise ConfigError(f"--without {value}: no head of stack {stack.name} ({known or 'it has none'})")
        if len(meant) > 1:
            which = " or ".join(f"{component}#{pr}" for component, pr in meant)
            raise ConfigError(f"--without {value}: write {which}")
        if meant[0] in superseded:
            raise ConfigError(
                f"--without {value}: #{superseded[meant[0]]} replaces it, so it is not in the stack anyway"
            )
        if meant[0] not in out:
            out.append(meant[0])
    return Left(tuple(sorted(out, key=heads.index)))
