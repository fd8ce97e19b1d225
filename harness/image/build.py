"""From a lock to an image: the base by its digest, the files laid over it, the result read back from the engine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal, get_args

from harness.errors import ConfigError, SetupFailure
from harness.image import buildx, classic
from harness.image.base import Base, base_image, refuse_unfit
from harness.image.log import BuildLog, faults_in
from harness.image.payload import is_built, write_context
from harness.image.record import BuiltImage
from harness.image.wanted import Wanted
from harness.launch.docker.engine import Engine, EngineError, Json, Missing, connect
from harness.launch.logpipe import tail
from harness.stack.reading import read_lock
from harness.stack.record import StackLock

Builder = Literal["buildx", "classic"]
VARIABLE = "QUALIFY_BUILDER"
TOLD = 50
"""Faults that a message names; the log has them all."""
LAST_LINES = 20


def build_image(lock_folder: Path, log_file: Path, *, tell: Callable[[str], None], builder: str = "auto") -> BuiltImage:
    """The image of the lock in a folder, built unless it is there already.

    Args:
        lock_folder: what `qualify lock` wrote.
        log_file: gets the builder's output, if anything is built.
        tell: is told what takes long.
        builder: buildx, classic, or auto: QUALIFY_BUILDER, else buildx where there is one.

    Raises:
        ConfigError: there is no lock, it was edited, or there is no such builder.
        SetupFailure: no engine, no base image, a base that is not as the lock says, a build that failed.
    """
    lock = read_lock(lock_folder)
    chosen = chosen_builder(builder)
    engine = connect()
    try:
        return _image(engine, lock, lock_folder, log_file=log_file, tell=tell, builder=chosen)
    except EngineError as e:
        raise SetupFailure(f"image of {lock.stack}: {e}") from e
    except OSError as e:
        where = e.filename or tempfile.gettempdir()
        raise SetupFailure(f"image of {lock.stack}: {where}: {e.strerror or e}") from e
    finally:
        engine.close()


def chosen_builder(builder: str) -> Builder:
    """The builder that an option or QUALIFY_BUILDER names; buildx, where there is one, if neither does.

    Raises:
        ConfigError: there is no such builder.
        SetupFailure: buildx is asked for by name and not there.
    """
    name, where = builder, "--builder"
    if name == "auto":
        name, where = os.environ.get(VARIABLE) or "auto", VARIABLE
    if name == "auto":
        return "buildx" if buildx.is_there() else "classic"
    if name == "classic":
        return "classic"
    if name != "buildx":
        raise ConfigError(f"{where}: there is no builder `{name}`; write {', '.join(get_args(Builder))} or auto")
    if not buildx.is_there():
        raise SetupFailure(f"{where} names buildx, and `docker buildx version` fails; install it, or use classic")
    return "buildx"


def _image(
    engine: Engine, lock: StackLock, folder: Path, *, log_file: Path, tell: Callable[[str], None], builder: Builder
) -> BuiltImage:
    base = base_image(engine, lock, tell)
    if not is_built(lock):
        return _record(lock, base, base.description)
    refuse_unfit(base, lock)
    with tempfile.TemporaryFile(prefix="qualify-context-") as context:
        wanted = Wanted(lock, base, write_context(lock, folder, context))
        if there := _described(engine, wanted.tag):
            faults = wanted.faults(there)
            if not faults:
                return _record(lock, base, there, wanted)
            tell(f"{wanted.tag} is another image and is built again: {'; '.join(faults)}")
        tell(f"building {wanted.tag}")
        context.seek(0)
        with BuildLog(log_file) as log:
            image_id = _build(engine, wanted, context, log, builder)
    built = engine.image(image_id)
    if faults := wanted.faults(built):
        told = "".join(f"\n  {line}" for line in faults)
        raise SetupFailure(f"image {image_id} of {lock.stack} is not what was asked for{told}")
    return _record(lock, base, built, wanted, builder=builder, log_sha256=log.sha256)


def _build(engine: Engine, wanted: Wanted, context: IO[bytes], log: BuildLog, builder: Builder) -> str:
    """Run the builder; the ID of what it made.

    Raises:
        SetupFailure: it failed, and the message says what the program inside found, or how the log ends; or the log
            is not whole.
    """
    if builder == "buildx":
        made = buildx.build(wanted, context, log.write)
    else:
        made = classic.build(engine, wanted, context, log.write)
    log.check()
    if made is not None:
        return made
    where = f"image of {wanted.lock.stack} on {wanted.base.reference}"
    found = faults_in(log.path.read_text("utf-8", "backslashreplace"))
    if not found:
        end = tail(log.path, LAST_LINES)
        raise SetupFailure(f"{where}: the build failed ({builder}); its log {log.path} ends\n{end}")
    lines = "".join(f"\n  {line}" for line in found[:TOLD])
    more = f"\n  and {len(found) - TOLD} more" if len(found) > TOLD else ""
    raise SetupFailure(f"{where}{lines}{more}\nThe build log is {log.path}")


def _described(engine: Engine, name: str) -> Json | None:
    try:
        return engine.image(name)
    except Missing:
        return None


def _record(
    lock: StackLock,
    base: Base,
    described: Json,
    wanted: Wanted | None = None,
    *,
    builder: Builder | None = None,
    log_sha256: str | None = None,
) -> BuiltImage:
    return BuiltImage(
        tag=wanted.tag if wanted else None,
        image_id=described["Id"],
        lock_sha256=lock.sha256,
        base_reference=lock.base.reference,
        base_digest=lock.base.digest,
        base_image_id=base.image_id,
        labels=dict(described["Config"].get("Labels") or {}),
        builder=builder,
        reused=wanted is not None and builder is None,
        context_sha256=wanted.context_sha256 if wanted else None,
        log_sha256=log_sha256,
    )
