"""`qualify image`: the steps of its commands. Nothing here prints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.errors import SetupFailure
from harness.image.archive import Loaded, default_output, load_image, save_image
from harness.image.archive_record import ArchiveRecord
from harness.image.identity import Verification, expected_image
from harness.image.lookup import image_named, image_of, lock_named
from harness.image.verify import verify_image, verify_running
from harness.launch.docker import settings
from harness.launch.docker.engine import Engine, EngineError, Json, connect
from harness.launch.docker.outcome import address_of, is_running
from harness.paths import locks_root, results_root
from harness.stack.record import LOCK_FILE

DEFAULT_COMMAND = ("vllm",)


def verify(
    stack: str, *, image: str | None, container: str | None, served_model: str | None, command: Sequence[str] = ()
) -> Verification:
    """Hold an image, or a running container, against the lock of a stack.

    Args:
        stack: a stack's name or file, or a lock's folder.
        image: tag or id of the image; None: the one whose label names the lock.
        container: running container to ask; None: one that is made for it, and removed.
        served_model: name that the container's server must list; None: any.
        command: the engine's command; empty: the container's own, or `vllm`.

    Raises:
        ConfigError: there is no such lock.
        SetupFailure: there is no such image or container, or it cannot be asked.
    """
    lock = lock_named(stack)
    with _engine() as engine:
        described = image_named(engine, image) if image else image_of(engine, lock)
        tag = image if image in (described.get("RepoTags") or ()) else None
        expected = expected_image(lock, described["Id"], tag=tag)
        if container is None:
            return verify_image(engine, expected, command=command or DEFAULT_COMMAND)
        inspect = _container(engine, container)
        return verify_running(
            engine,
            inspect["Id"],
            expected,
            base_url=_base_url(inspect),
            served_model=served_model,
            # The launcher makes the engine's command a container's entrypoint, and the rest its arguments.
            command=command or inspect["Config"].get("Entrypoint") or DEFAULT_COMMAND,
        )


def archive(name: str, output: Path | None) -> tuple[Path, ArchiveRecord]:
    """Save the image of a stack, or one that a tag or an id names.

    Raises:
        ConfigError: the output cannot be used.
        SetupFailure: there is no such image, or it cannot be saved.
    """
    with _engine() as engine:
        described = _image(engine, name)
        path = output or default_output(described, results_root() / "images")
        return path, save_image(engine, described, path)


def load(path: Path) -> Loaded:
    """Load what `archive` saved; see `load_image`."""
    with _engine() as engine:
        return load_image(engine, path)


@contextlib.contextmanager
def _engine() -> Iterator[Engine]:
    engine = connect()
    try:
        yield engine
    finally:
        engine.close()


def _image(engine: Engine, name: str) -> Json:
    """A stack's image where there is a lock of that name, else the image of that name."""
    if any((folder / LOCK_FILE).is_file() for folder in (Path(name), locks_root() / name)) or name.endswith(".toml"):
        return image_of(engine, lock_named(name))
    return image_named(engine, name)


def _container(engine: Engine, container: str) -> Json:
    try:
        return engine.inspect(container)
    except EngineError as e:
        raise SetupFailure(f"container {container}: {e}") from e


def _base_url(inspect: Json) -> str | None:
    """Where the server of a launch listens; None where it is not in a network of its own."""
    networks = list(inspect["NetworkSettings"]["Networks"])
    if not is_running(inspect) or len(networks) != 1:
        return None
    address = address_of(inspect, networks[0])
    return f"http://{address}:{settings.PORT}" if address else None
