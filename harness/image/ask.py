"""`qualify build`: which lock is meant, whether it is still its stack's, and what became of it in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.config.load import load_stack
from harness.errors import ConfigError
from harness.image.build import build_image
from harness.image.record import BuiltImage
from harness.paths import locks_root
from harness.stack.reading import parse_lock, refuse_outdated
from harness.stack.record import LOCK_FILE, StackLock
from harness.stack.selection import left_out

LOG_FILE = "build.log"


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    name: str
    """A stack, or the folder of a lock."""
    without: tuple[str, ...] = ()
    builder: str = "auto"
    log: Path | None = None
    """The lock's folder has it where this is None."""


@dataclass(frozen=True)
class Built:
    """The image, the lock that it is of, and where the build log lies."""

    image: BuiltImage
    lock: StackLock
    log: Path


def build(request: Request, tell: Callable[[str], None]) -> Built:
    """Build the image of a stack's lock.

    Raises:
        ConfigError: there is no lock, or it is not the stack's any more.
        SetupFailure: the image cannot be built; see `build_image`.
    """
    folder = lock_folder(request.name, request.without)
    log = request.log or folder / LOG_FILE
    image = build_image(folder, log, tell=tell, builder=request.builder)
    return Built(image, parse_lock(folder / LOCK_FILE), log)


def lock_folder(name: str, without: tuple[str, ...] = ()) -> Path:
    """The folder of the lock that a stack, or a folder's own path, stands for.

    Raises:
        ConfigError: there is none, or the stack says something else by now.
    """
    if (Path(name) / LOCK_FILE).is_file():
        if without:
            raise ConfigError(f"--without belongs to a stack's name; {name} is the folder of a lock")
        return Path(name)
    loaded = load_stack(name)
    stack = loaded.model
    left = left_out(stack, without)
    folder = locks_root() / "-".join((stack.name, *left.names_in_path))
    again = " ".join(["qualify lock", name, *(f"--without {value}" for value in without)])
    if not (folder / LOCK_FILE).is_file():
        raise ConfigError(f"stack {stack.name} has no lock in {folder}; `{again}` writes it")
    refuse_outdated(parse_lock(folder / LOCK_FILE), folder / LOCK_FILE, stack, loaded.path, again)
    return folder


def built_lines(built: Built) -> Iterator[str]:
    """What `qualify build` prints."""
    image, lock = built.image, built.lock
    yield f"{lock.stack} on {image.base_reference}"
    yield f"base        manifest {image.base_digest}, image {image.base_image_id}"
    for component in lock.components:
        copies = len(component.install)
        how = f"built with `{component.build_command}`" if component.build_command else "overlaid"
        files = f"{len(component.installed)} files x {copies} {'copy' if copies == 1 else 'copies'} {how}"
        yield f"{component.name:<11} tree {component.tree}, {files}"
    if image.tag is None:
        yield "image       the base itself: the lock changes nothing that is installed in it"
        return
    yield f"tag         {image.tag}"
    yield f"image       {image.image_id}, {'reused: built before' if image.reused else f'built ({image.builder})'}"
    if image.log_sha256:
        yield f"log         {built.log}, sha256 {image.log_sha256}"
