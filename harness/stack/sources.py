"""Where a component's commits come from: its repository, or a local mirror of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from harness.config.components import Component, is_local, public_url
from harness.errors import ConfigError


@dataclass(frozen=True)
class Source:
    """What git is to ask, and how that is shown to people."""

    address: str
    shown: str
    mirror: bool = False


@dataclass(frozen=True)
class Mirrors:
    """Values of --mirror: a folder for all components, a path for one of them."""

    folder: Path | None = None
    paths: dict[str, Path] = field(default_factory=dict)


def parse_mirrors(values: Iterable[str], components: Iterable[str]) -> Mirrors:
    """The mirrors that the options name: DIR, or COMPONENT=PATH, each as often as needed.

    Raises:
        ConfigError: a component is unknown or named twice, or there are two folders.
    """
    known = list(components)
    folder: Path | None = None
    paths: dict[str, Path] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if equals and "/" not in name:
            if name not in known:
                raise ConfigError(f"--mirror {value}: there is no component `{name}` ({', '.join(known) or 'none'})")
            if name in paths:
                raise ConfigError(f"--mirror {value}: component {name} has a mirror already, {paths[name]}")
            paths[name] = Path(path)
        elif folder is not None:
            raise ConfigError(f"--mirror {value}: there is a folder already, {folder}; write COMPONENT=PATH")
        else:
            folder = Path(value)
    return Mirrors(folder, paths)


def source_of(component: Component, stack_folder: Path, mirrors: Mirrors) -> Source:
    """The repository to ask for a component's commits.

    Raises:
        ConfigError: a mirror that was asked for is not there.
    """
    if component.name in mirrors.paths:
        return _mirror(component, [mirrors.paths[component.name]])
    if mirrors.folder is not None:
        stem = PurePosixPath(component.repository.replace(":", "/")).name.removesuffix(".git")
        below = [mirrors.folder / f"{name}{end}" for name in (component.name, stem) for end in (".git", "")]
        return _mirror(component, [*below, mirrors.folder])
    if is_local(component.repository):
        # Absolute, so that neither the working directory nor a leading dash matters to git.
        return Source(str((stack_folder / component.repository).resolve()), component.repository)
    return Source(component.repository, public_url(component.repository))


def _mirror(component: Component, places: list[Path]) -> Source:
    for place in places:
        if any((git / "objects").is_dir() for git in (place, place / ".git")):
            return Source(str(place.resolve()), str(place), mirror=True)
    tried = ", ".join(map(str, places))
    raise ConfigError(
        f"--mirror: no git repository for component {component.name} (looked for {tried}); "
        f"`git clone --mirror {public_url(component.repository)} {places[0]}` makes one"
    )
