"""Locks and images by the names that a user gives them."""

from __future__ import annotations

from pathlib import Path

from harness.config.load import load_stack
from harness.errors import ConfigError, SetupFailure
from harness.image.names import LOCK
from harness.image.payload import is_built
from harness.launch.docker.engine import Engine, EngineError, Json, Missing
from harness.paths import locks_root
from harness.stack.reading import read_lock
from harness.stack.record import LOCK_FILE, StackLock


def lock_named(name: str) -> StackLock:
    """The lock of a stack (its name, or its file), or the one in a folder.

    Raises:
        ConfigError: there is none, or it was changed.
    """
    folder = Path(name)
    if not (folder / LOCK_FILE).is_file():
        folder = locks_root() / (load_stack(name).model.name if name.endswith(".toml") else name)
    if not (folder / LOCK_FILE).is_file():
        raise ConfigError(f"`{name}`: no lock at {folder / LOCK_FILE}; `qualify lock {name}` writes it")
    return read_lock(folder)


def image_of(engine: Engine, lock: StackLock) -> Json:
    """The description of the image that was built from a lock, found by its label, or the base that needs no other.

    Raises:
        SetupFailure: there is none, or more than one.
    """
    if not is_built(lock):
        return image_named(engine, lock.base.reference)
    try:
        found = sorted({image.id for image in engine.images(f"{LOCK}={lock.sha256}")})
        if len(found) == 1:
            return engine.image(found[0])
    except EngineError as e:
        raise SetupFailure(f"cannot look for the image of {lock.stack}: {e}") from e
    if not found:
        raise SetupFailure(
            f"no image on this host was built from the lock of {lock.stack} (label {LOCK}={lock.sha256}); "
            f"run `qualify build {lock.stack}`"
        )
    raise SetupFailure(f"several images were built from the lock of {lock.stack}; name one: {', '.join(found)}")


def image_named(engine: Engine, name: str) -> Json:
    """The description of an image by its tag, id or digest.

    Raises:
        SetupFailure: there is none.
    """
    try:
        return engine.image(name)
    except Missing as e:
        raise SetupFailure(f"no image {name} on this host: {e}") from e
    except EngineError as e:
        raise SetupFailure(f"cannot look for image {name}: {e}") from e
