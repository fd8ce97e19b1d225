"""Keep the image that evidence refers to: an archive that `docker load` reads, and a record that names every byte.

FILE.json is written last, so an archive with a record is whole. An image is saved by its id: a tag may move.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from harness.errors import ConfigError, SetupFailure
from harness.evidence.bundle import write_record
from harness.image.archive_record import ArchiveRecord, read_record, record_file
from harness.image.names import BASE_DIGEST, LOCK
from harness.launch.docker.engine import Engine, EngineError, Json, Missing

ENDING = ".tar.zst"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Loaded:
    """An image that was taken in again."""

    record: ArchiveRecord
    tagged: tuple[str, ...]
    """Names that it got back."""
    taken: tuple[str, ...] = field(default=())
    """Names that stand for another image on this host, and were left alone."""


def default_output(image: Json, folder: Path) -> Path:
    """Where an archive goes: the image's id names it."""
    return folder / f"{image['Id'].removeprefix('sha256:')[:16]}{ENDING}"


def save_image(engine: Engine, image: Json, output: Path) -> ArchiveRecord:
    """Save an image, compressed with Zstandard; memory does not grow with its size.

    Raises:
        ConfigError: the output has another ending, or is there already.
        SetupFailure: the engine refuses, or the file cannot be written. Nothing is left of it then.
    """
    if not output.name.endswith(ENDING):
        raise ConfigError(f"--output {output}: an archive's name ends in {ENDING}")
    for path in (output, record_file(output)):
        if path.exists():
            raise ConfigError(f"{path} is there already; remove it, or name another file with --output")
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        sha256, size = _write(engine.save(image["Id"]), temporary)
        labels = image["Config"].get("Labels") or {}
        record = ArchiveRecord(
            image_id=image["Id"],
            tags=tuple(image.get("RepoTags") or ()),
            repo_digests=tuple(image.get("RepoDigests") or ()),
            labels=labels,
            base_digest=labels.get(BASE_DIGEST),
            lock_sha256=labels.get(LOCK),
            sha256=sha256,
            size_bytes=size,
        )
        temporary.rename(output)
        try:
            write_record(record_file(output), record)
        except OSError:
            output.unlink()
            raise
    except EngineError as e:
        raise SetupFailure(f"image {image['Id']} cannot be saved: {e}") from e
    except OSError as e:
        raise SetupFailure(f"{output} cannot be written: {e.strerror or e}; --output names a place") from e
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return record


def load_image(engine: Engine, archive: Path) -> Loaded:
    """Check an archive against its record, let the engine take it in, and check that it is the same image.

    Raises:
        ConfigError: the record is missing or makes no sense.
        SetupFailure: the archive is another one, or cut off; or the engine makes another image of it.
    """
    record = read_record(archive)
    _check(archive, record)
    try:
        told = engine.load(_plain(archive))
        found = engine.image(record.image_id)["Id"]
    except Missing as e:
        raise SetupFailure(f"{archive}: loaded, but expected image {record.image_id}, found {told}: {e}") from e
    except EngineError as e:
        raise SetupFailure(f"{archive} cannot be loaded: {e}") from e
    except OSError as e:
        raise SetupFailure(f"{archive} cannot be read: {e.strerror or e}") from e
    if found != record.image_id:
        raise SetupFailure(f"{archive}: expected image {record.image_id}, found {found}")
    free = tuple(tag for tag in record.tags if _behind(engine, tag) is None)
    for tag in free:
        engine.tag(record.image_id, tag)
    taken = tuple(t for t in record.tags if t not in free and _behind(engine, t) != record.image_id)
    return Loaded(record, free, taken)


class _Hashed:
    """A file that is hashed while it is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """The file's owner closes it."""

    def tell(self) -> int:
        return self.size


def _write(pieces: Iterator[bytes], path: Path) -> tuple[str, int]:
    """Compress into a file; returns its SHA-256 and size."""
    import pyarrow as pa  # noqa: PLC0415  # a second that only archives need

    with path.open("xb") as stream:
        hashed = _Hashed(stream)
        with pa.CompressedOutputStream(pa.PythonFile(hashed, mode="w"), "zstd") as compressed:
            for piece in pieces:
                compressed.write(piece)
        stream.flush()
        os.fsync(stream.fileno())
    return hashed.digest.hexdigest(), hashed.size


def _plain(archive: Path) -> Iterator[bytes]:
    import pyarrow as pa  # noqa: PLC0415

    with pa.CompressedInputStream(pa.OSFile(str(archive)), "zstd") as stream:
        while piece := stream.read(BLOCK):
            yield piece


def _check(archive: Path, record: ArchiveRecord) -> None:
    try:
        with archive.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != record.size_bytes:
                raise SetupFailure(
                    f"{archive}: expected {record.size_bytes} bytes, found {size}; it was cut off, or is another one"
                )
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as e:
        raise SetupFailure(f"{archive} cannot be read: {e.strerror}") from e
    if sha256 != record.sha256:
        raise SetupFailure(f"{archive}: expected SHA-256 {record.sha256}, found {sha256}; it was changed")


def _behind(engine: Engine, tag: str) -> str | None:
    with contextlib.suppress(Missing):
        return str(engine.image(tag)["Id"])
    return None
