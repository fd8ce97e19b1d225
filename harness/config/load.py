"""Find, read, merge and validate profiles and stacks."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from harness.config.components import untagged
from harness.config.extend import Member, merged
from harness.config.layers import DEFAULT, Layers
from harness.config.model import Profile, Stack
from harness.errors import ConfigError
from harness.paths import PROJECT

M = TypeVar("M", bound=BaseModel)

FLAG_VALUES = "a flag's value is true, false, a number, text, a list of numbers and texts, or a table"


class FloatingTagError(ConfigError):
    """A stack names its image by a tag; whoever can ask a registry says which digest that is now."""

    def __init__(self, place: str, reference: str, now: str = "") -> None:
        self.place = place
        self.reference = reference
        name = untagged(reference)
        tagged = reference if reference != name else f"{reference}:latest"
        ask = f"`docker buildx imagetools inspect {tagged}` tells the digest"
        super().__init__(
            f"{place}: key `base.reference`: `{reference}` is a tag, and a tag moves. "
            f'Write reference = "{name}@sha256:..." with the digest of the manifest; {now or ask}'
        )


@dataclass(frozen=True)
class Loaded(Generic[M]):
    """A validated model and where each of its values came from."""

    model: M
    layers: Layers
    path: Path | None


def load_profile(
    name: str, *, smoke: bool = False, overrides: Iterable[tuple[str, object, str]] = ()
) -> Loaded[Profile]:
    """The profile of that name (in `profiles/`) or path, with overrides as (key, value, origin).

    Raises:
        ConfigError: file, line or key, what was expected.
    """
    path = find(name, "profiles")
    tree = read_toml(path)
    smoke_tree = tree.pop("smoke", {})
    if not isinstance(smoke_tree, dict):
        raise ConfigError(f"{_shown(path)}: key `smoke`: must be a table (got {smoke_tree!r})")
    layers = Layers()
    layers.add(tree, _shown(path))
    if smoke:
        if not smoke_tree:
            raise ConfigError(f"{_shown(path)}: --smoke needs a [smoke] table, and this profile has none")
        layers.add(smoke_tree, f"{_shown(path)} [smoke]")
    else:
        # A broken [smoke] table is an error today, not on the day somebody first uses it.
        trial = Layers()
        trial.add(tree, _shown(path))
        trial.add(smoke_tree, f"{_shown(path)} [smoke]")
        validate(Profile, trial, _shown(path))
    for key, value, origin in overrides:
        layers.set(key, value, origin)
    return Loaded(validate(Profile, layers, _shown(path)), layers, path)


def load_stack(name: str) -> Loaded[Stack]:
    """The stack of that name (in `stacks/`) or path; '' is the profile as it is.

    Raises:
        ConfigError: file, line or key, what was expected.
    """
    if not name:
        stack = Stack(name="as-is", description="the profile as it is")
        return Loaded(stack, Layers(), None)
    path = find(name, "stacks")
    layers = merged(_line(path, ()))
    _refuse_a_floating_tag(layers, _shown(path))
    return Loaded(validate(Stack, layers, _shown(path)), layers, path)


def _line(path: Path, below: tuple[Path, ...]) -> list[Member]:
    """The stack at `path` behind those that it extends, the root first."""
    real = path.resolve()
    if real in below:
        circle = " -> ".join(p.stem for p in (*below[below.index(real) :], real))
        raise ConfigError(f"{_shown(path)}: key `extends`: a stack cannot extend itself ({circle})")
    tree = read_toml(path)
    member = Member(tree, _shown(path), real.parent)
    parent = tree.get("extends")
    if not isinstance(parent, str) or not parent:
        return [member]
    # Seen from the file that names it: the same stack must not depend on where the user stands.
    found = real.parent / (parent if parent.endswith(".toml") else f"{parent}.toml")
    if not found.is_file():
        if parent.endswith(".toml"):
            raise ConfigError(f"{_shown(path)}: key `extends`: there is no file {_shown(found)}")
        try:
            found = find(parent, "stacks")
        except ConfigError as e:
            raise ConfigError(f"{_shown(path)}: key `extends`: {e}") from None
    return [*_line(found, (*below, real)), member]


def _refuse_a_floating_tag(layers: Layers, where: str) -> None:
    base = layers.values.get("base")
    reference = base.get("reference") if isinstance(base, dict) else None
    if isinstance(reference, str) and "@" not in reference:
        raise FloatingTagError(_place("base.reference", layers, where), reference)


def find(name: str, folder: str) -> Path:
    """The TOML file that `name` stands for: a path, or a name in the project's folder.

    Raises:
        ConfigError: there is no such file; the message lists the names there are.
    """
    for candidate in (Path(name), PROJECT / folder / f"{name}.toml"):
        if candidate.suffix == ".toml" and candidate.is_file():
            return candidate
    known = ", ".join(sorted(p.stem for p in (PROJECT / folder).glob("*.toml"))) or "none"
    raise ConfigError(f"no such file in {folder}/: `{name}`. Give a path ending in .toml or one of: {known}")


def read_toml(path: Path) -> dict[str, Any]:
    """The file's tables.

    Raises:
        ConfigError: it cannot be read or is no TOML; the message names the line.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as e:
        raise ConfigError(f"{_shown(path)}: not valid TOML: {e}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{_shown(path)}: cannot be read: {e}") from None


def validate(kind: type[M], layers: Layers, where: str) -> M:
    """The validated model of merged values.

    Strict JSON validation, because TOML's types are JSON's: "4" is no number, 1 is no truth value.

    Raises:
        ConfigError: one line per fault, with key, origin and what was expected.
    """
    try:
        text = json.dumps(layers.values, default=lambda value: _no_json(value, where))
        return kind.model_validate_json(text, strict=True)
    except ValidationError as e:
        raise ConfigError("\n".join(_faults(e, layers, where))) from None


def _faults(error: ValidationError, layers: Layers, where: str) -> list[str]:
    lines: dict[str, None] = {}  # in order, each once
    for fault in error.errors(include_url=False):
        if fault["type"] == "too_short" and fault["input"]:
            continue  # follows from the fault of an item, which has its own line
        parts, rest, there = _located(fault["loc"], layers.values)
        got = fault["input"]
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown key; check the spelling"
        elif fault["type"] == "union_tag_not_found":
            parts.append("type")
            message = "Field required"
        elif fault["type"] == "union_tag_invalid":
            parts.append("type")
            message, got = f"must be one of {fault['ctx']['expected_tags']}", fault["ctx"]["tag"]
        elif fault["type"] == "missing":
            parts += [str(p) for p in rest]
        elif rest and rest != ("[key]",):
            # The arms of a union: pydantic reports all that it tried, a reader wants one line.
            message = FLAG_VALUES if parts[-2:-1] == ["flags"] else "a value here is a number, true or false"
            got = there
        key = ".".join(parts)
        line = f"{_place(key, layers, where)}: {f'key `{key}`: ' if key else ''}{message}"
        if fault["type"] not in ("extra_forbidden", "missing", "value_error", "union_tag_not_found"):
            line += f" (got {got!r})"
        lines[line] = None
    return list(lines)


def _located(loc: tuple[int | str, ...], value: Any) -> tuple[list[str], tuple[int | str, ...], Any]:
    """The part of a fault's location that is in the user's file, the rest of it, and the value there."""
    parts: list[str] = []
    for depth, part in enumerate(loc):
        if isinstance(value, dict) and part not in value and value.get("type") == part:
            continue  # pydantic's name for an arm of a union that its `type` chose
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return parts, loc[depth:], value
        parts.append(str(part))
    return parts, (), value


def _place(key: str, layers: Layers, where: str) -> str:
    """Where a fault came from: one origin for a value, for a table all that wrote into it."""
    origin = layers.origin(key)
    if origin != DEFAULT:
        return origin
    inside = f"{key}." if key else ""
    others = dict.fromkeys(o for k, o in layers.origins.items() if k.startswith(inside) and o != where)
    return " and ".join([where, *others])


def _no_json(value: object, where: str) -> str:
    raise ConfigError(f"{where}: dates and times have no place here, and there is one: {value}")


def _shown(path: Path) -> str:
    """The path as the user would write it: below the project if it lies there."""
    try:
        return str(path.resolve().relative_to(PROJECT))
    except ValueError:
        return str(path)
