"""Read a lock back: its own hash, the files beside it, and whether the stack still says the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.config.model import Stack
from harness.errors import ConfigError
from harness.stack.record import LOCK_FILE, LOCK_SCHEMA, StackLock, canonical_sha256


def inputs_sha256(stack: Stack) -> str:
    """Hash over what a stack says about its image. Flags, names and places of files are no part of it."""
    tree = stack.model_dump(mode="json", include={"base", "build", "components", "claims"})
    for component in tree["components"]:
        for patch in (component["integration"], *component["patches"]):
            if patch:
                del patch["path"]  # relative to a folder; what counts is the content's hash
    return canonical_sha256(tree)


def read_lock(folder: Path) -> StackLock:
    """The lock in a folder, its own hash and those of the files beside it checked.

    Raises:
        ConfigError: it is missing, newer, edited, or a file beside it is another one.
    """
    lock = parse_lock(folder / LOCK_FILE)
    for component in lock.components:
        for name, expected in (
            (component.patch_file, component.patch_sha256),
            (component.composed_file, component.composed_sha256),
        ):
            try:
                with (folder / name).open("rb") as stream:
                    found = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as e:
                raise ConfigError(f"{folder / name}: cannot be read ({e.strerror}); run `qualify lock` again") from None
            if found != expected:
                raise ConfigError(
                    f"{folder / name}: SHA-256 is {found}, the lock says {expected}; lock the stack again"
                )
    return lock


def parse_lock(path: Path, *, whole: bool = True) -> StackLock:
    """The record alone, its own hash checked.

    Args:
        path: Where it lies.
        whole: False for one from which private words were removed: its hash is that of the original.

    Raises:
        ConfigError: it is missing, newer or edited.
    """
    try:
        data = path.read_bytes()
        tree: Any = json.loads(data)
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read ({e.strerror}); `qualify lock STACK` writes it") from None
    except ValueError as e:
        raise ConfigError(f"{path}: not valid JSON ({e}); lock the stack again") from None
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    if isinstance(version, int) and version > LOCK_SCHEMA:
        raise ConfigError(f"{path}: schema {version} is newer than this harness knows ({LOCK_SCHEMA}); update it")
    try:
        lock = StackLock.model_validate_json(data)
    except ValidationError as e:
        fault = e.errors(include_url=False)[0]
        raise ConfigError(f"{path}: no lock: `{'.'.join(map(str, fault['loc']))}`: {fault['msg']}") from None
    if whole and lock.computed_sha256() != lock.sha256:
        raise ConfigError(f"{path}: was edited after it was written (its SHA-256 does not fit); lock the stack again")
    return lock


def refuse_outdated(lock: StackLock, file: Path, stack: Stack, named_in: object, again: str) -> None:
    """A lock stands for what its stack said when it was locked.

    Args:
        lock: the lock.
        file: where it lies.
        stack: the stack as it is now.
        named_in: where that is written.
        again: the command that locks it.

    Raises:
        ConfigError: the stack says something else by now, or is another one.
    """
    if lock.stack != stack.name:
        raise ConfigError(f"{file} is a lock of stack {lock.stack}, not of {stack.name}; name another one")
    if lock.inputs_sha256 != inputs_sha256(stack):
        raise ConfigError(
            f"{file} is not what {named_in} says by now: its base, build, components or claims were changed since; "
            f"`{again} --update` locks it again"
        )


def differences(old: StackLock, new: StackLock, where: tuple[str, str] = ("there", "now")) -> list[str]:
    """What another lock says otherwise, most telling first; `where` says whose each side is."""
    lines = [
        f"{field}: {getattr(old, field)} {where[0]}, {getattr(new, field)} {where[1]}"
        for field in ("stack", "without", "base", "build_mode")
        if getattr(old, field) != getattr(new, field)
    ]
    before = {c.name: c for c in old.components}
    after = {c.name: c for c in new.components}
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after:
            lines.append(f"component {name}: only {where[name not in before]}")
            continue
        heads = [{h.pr: h.head or str(h.disposition) for h in c.heads} for c in (before[name], after[name])]
        for pr in dict.fromkeys((*heads[0], *heads[1])):
            was, now = (side.get(pr, "none") for side in heads)
            if was != now:
                lines.append(f"component {name}: #{pr}: {was} {where[0]}, {now} {where[1]}")
        if before[name].tree != after[name].tree:
            trees = (before[name].tree, after[name].tree)
            lines.append(f"component {name}: tree {trees[0]} {where[0]}, {trees[1]} {where[1]}")
    if old.claims != new.claims:
        lines.append("claims")
    return lines or ["other fields differ"]
