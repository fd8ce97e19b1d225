"""Find, read, merge and validate profiles and stacks."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from harness.config.layers import Layers
from harness.config.model import Profile, Stack
from harness.errors import ConfigError
from harness.paths import PROJECT

M = TypeVar("M", bound=BaseModel)


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
    layers = Layers()
    layers.add(read_toml(path), _shown(path))
    return Loaded(validate(Stack, layers, _shown(path)), layers, path)


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
        return kind.model_validate_json(json.dumps(layers.values, default=_no_json), strict=True)
    except ValidationError as e:
        raise ConfigError("\n".join(_faults(e, layers, where))) from None


def _faults(error: ValidationError, layers: Layers, where: str) -> list[str]:
    lines = []
    for fault in error.errors(include_url=False):
        # pydantic names the arm of a union or a model's "key" marker too; a user knows only keys.
        parts = [str(p) for p in fault["loc"] if not (isinstance(p, str) and ("[" in p or p in _UNION_ARMS))]
        key = ".".join(parts)
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown key; check the spelling"
        origin = layers.origin(key)
        place = where if origin in ("default", where) else origin
        line = f"{place}: {f'key `{key}`: ' if key else ''}{message}"
        if fault["type"] not in ("extra_forbidden", "missing", "value_error"):
            line += f" (got {fault['input']!r})"
        if line not in lines:
            lines.append(line)
    return lines


_UNION_ARMS = frozenset({"bool", "int", "float", "str", "json-or-python"})


def _no_json(value: object) -> str:
    raise ConfigError(f"dates and times have no place in a profile or stack: {value}")


def _shown(path: Path) -> str:
    """The path as the user would write it: below the project if it lies there."""
    try:
        return str(path.resolve().relative_to(PROJECT))
    except ValueError:
        return str(path)
