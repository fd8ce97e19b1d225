"""A stack that extends another: the tables of both, as one.

Tables merge and values replace, as everywhere. Of the lists, a component is found again by its name
and a head by its pull request; what the child adds stands behind what the parent has. A claim about
the same thing replaces the parent's, and kernels that are no longer late add up. A source check is found
again by its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.components import is_local
from harness.config.layers import Layers

OWN = ("name", "description", "extends")
"""Keys that a child never takes over: they say which stack it is."""

Identify = Callable[[dict[str, Any]], object]
Merge = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Member:
    """One file of a line of stacks that extend each other."""

    tree: dict[str, Any]
    origin: str
    folder: Path


def merged(line: list[Member]) -> Layers:
    """The tables of the last member over those of the ones before it, the root first."""
    layers = Layers()
    last = line[-1]
    for member in line:
        tree = {k: v for k, v in member.tree.items() if member is last or k not in OWN}
        if isinstance(components := tree.get("components"), list):
            tree["components"] = [_moved(c, member.folder, last.folder) for c in components]
        for key, combine in (("components", _components), ("claims", _claims), ("checks", _checks)):
            if key in tree and key in layers.values:
                both = combine(layers.values[key], tree.pop(key))
                layers.add({key: both}, f"{layers.origin(key)} and {member.origin}")
        layers.add(tree, member.origin)
    return layers


def _moved(component: Any, folder: Path, to: Path) -> Any:
    """The component with its paths as seen from another folder: they are relative to the file that names them."""
    if folder == to or not isinstance(component, dict):
        return component
    component = dict(component)
    patches = component.get("patches")
    if "integration" in component:
        component["integration"] = _with_path(component["integration"], folder, to)
    if isinstance(patches, list):
        component["patches"] = [_with_path(patch, folder, to) for patch in patches]
    if isinstance(repository := component.get("repository"), str) and is_local(repository):
        component["repository"] = _seen_from(to, folder, repository)
    return component


def _with_path(table: Any, folder: Path, to: Path) -> Any:
    path = table.get("path") if isinstance(table, dict) else None
    return {**table, "path": _seen_from(to, folder, path)} if isinstance(path, str) else table


def _seen_from(to: Path, folder: Path, path: str) -> str:
    return path if Path(path).is_absolute() else Path(os.path.relpath(folder / path, to)).as_posix()


def _components(parent: Any, child: Any) -> Any:
    return _joined(parent, child, lambda c: c.get("name"), _component)


def _component(parent: dict[str, Any], child: dict[str, Any]) -> dict[str, Any]:
    both = {**parent, **child}
    if "heads" in parent and "heads" in child:
        both["heads"] = _joined(parent["heads"], child["heads"], lambda h: h.get("pr"), lambda p, c: {**p, **c})
    if isinstance(parent.get("patches"), list) and isinstance(child.get("patches"), list):
        both["patches"] = [*parent["patches"], *child["patches"]]
    return both


def _claims(parent: Any, child: Any) -> Any:
    return _joined(parent, child, lambda c: (c.get("type"), c.get("metric"), c.get("context_tokens")), _claim)


def _claim(parent: dict[str, Any], child: dict[str, Any]) -> dict[str, Any]:
    before, more = parent.get("kernels"), child.get("kernels")
    if isinstance(before, list) and isinstance(more, list):
        return {**child, "kernels": [*before, *(kernel for kernel in more if kernel not in before)]}
    return child


def _checks(parent: Any, child: Any) -> Any:
    return _joined(parent, child, lambda c: c.get("name"), lambda p, c: {**p, **c})


def _joined(parent: Any, child: Any, identify: Identify, merge: Merge) -> Any:
    """Both lists as one. What is no list of tables is left to the validation, which names the fault."""
    if not all(isinstance(x, list) and all(isinstance(item, dict) for item in x) for x in (parent, child)):
        return child
    both = list(parent)
    # By their text, because a value of a wrong type may be unhashable.
    places = {repr(identify(item)): place for place, item in enumerate(both)}
    for item in child:
        # Taken out, so that an item which the child lists twice is seen twice, and refused.
        place = places.pop(repr(identify(item)), None)
        if place is None:
            both.append(item)
        else:
            both[place] = merge(both[place], item)
    return both
