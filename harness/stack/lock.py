"""`qualify lock`: from a stack's file to a folder with its lock, one patch and one archive per component."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.config.components import Base
from harness.config.load import FloatingTagError, Loaded, load_stack
from harness.config.model import Stack
from harness.errors import ConfigError, SetupFailure
from harness.paths import locks_root
from harness.stack.artifacts import file_sha256
from harness.stack.component import Locking
from harness.stack.compose import check_patches
from harness.stack.placing import place
from harness.stack.reading import differences, inputs_sha256, parse_lock
from harness.stack.record import LOCK_FILE, LockedBase, StackLock
from harness.stack.registry import digest_now
from harness.stack.selection import left_out
from harness.stack.sources import parse_mirrors, source_of

State = Literal["written", "replaced", "unchanged", "repaired"]


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    stack: str
    update: bool = False
    """Accept heads that moved, and replace a lock that says something else."""
    without: tuple[str, ...] = ()
    mirrors: tuple[str, ...] = ()
    output: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """The lock, where it lies, and whether anything was written."""

    lock: StackLock
    folder: Path
    state: State


def lock_stack(request: Request) -> Outcome:
    """Resolve and compose a stack, and write its lock unless another one is in the way.

    Raises:
        ConfigError: the stack cannot be locked as it is: a head moved or conflicts, a pin does not fit.
        SetupFailure: git is missing, a repository cannot be reached, a folder cannot be written to.
    """
    try:
        return _lock(request)
    except OSError as e:
        raise SetupFailure(f"cannot lock: {e.filename or tempfile.gettempdir()}: {e.strerror or e}") from None


def _lock(request: Request) -> Outcome:
    loaded, base = _load(request.stack)
    stack, path = loaded.model, loaded.path
    assert path is not None
    left = left_out(stack, request.without)
    mirrors = parse_mirrors(request.mirrors, (c.name for c in stack.components))
    folder = request.output or locks_root() / "-".join((stack.name, *left.names_in_path))
    with tempfile.TemporaryDirectory(prefix="qualify-locked-") as staging_name:
        staging = Path(staging_name)
        named_in = loaded.layers.origin("components")
        locking = Locking(stack, named_in, path.resolve().parent, left, staging, update=request.update)
        sources = [source_of(component, locking.folder, mirrors) for component in stack.components]
        for component in stack.components:
            check_patches(component, locking.folder)
        components = tuple(locking.lock(c, s) for c, s in zip(stack.components, sources, strict=True))
        lock = StackLock(
            stack=stack.name,
            without=left.names,
            base=LockedBase(reference=base.reference, digest=base.digest, release=base.release),
            build_mode=stack.build.mode,
            build_network=stack.build.network,
            build_installs=stack.build.installs,
            components=components,
            claims=stack.claims,
            inputs_sha256=inputs_sha256(stack),
        ).sealed()
        return Outcome(lock, folder, _write(lock, staging, folder, update=request.update))


def _load(name: str) -> tuple[Loaded[Stack], Base]:
    if not name:
        raise ConfigError("name a stack: a file in stacks/ without its ending, or a path to one")
    try:
        loaded = load_stack(name)
    except FloatingTagError as e:
        raise FloatingTagError(e.place, e.reference, digest_now(e.reference)) from None
    if loaded.model.base is None:
        raise ConfigError(
            f"stack {loaded.model.name} changes only flags, environment or model: there is nothing to lock. "
            "A stack with patches has [base] and [[components]]"
        )
    return loaded, loaded.model.base


def _write(lock: StackLock, staging: Path, folder: Path, *, update: bool) -> State:
    """Put the lock and its files in place, unless another lock is there.

    Raises:
        ConfigError: one is, and --update was not given.
    """
    there = folder / LOCK_FILE
    data = lock.to_bytes()
    state: State = "written"
    names = [name for c in lock.components for name in (c.patch_file, c.composed_file)]
    if there.exists():
        if there.read_bytes() == data:
            if all((folder / n).is_file() and file_sha256(folder / n) == file_sha256(staging / n) for n in names):
                return "unchanged"
            state = "repaired"
        elif not update:
            raise ConfigError(
                f"{there} is another lock\n{_against(there, lock)}\n"
                "--update replaces it on purpose, --output keeps both"
            )
        else:
            state = "replaced"
    (staging / LOCK_FILE).write_bytes(data)
    place({folder / name: staging / name for name in (*names, LOCK_FILE)})
    return state


def _against(there: Path, lock: StackLock) -> str:
    try:
        lines = differences(parse_lock(there), lock)
    except ConfigError as e:
        lines = [str(e)]
    return "\n".join(f"  {line}" for line in lines)
