"""What an archive of an image holds, as the record beside it says."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from harness.errors import ConfigError
from harness.records import Record

SCHEMA: Literal[1] = 1


class ArchiveRecord(Record):
    """What lies in an archive (FILE.json)."""

    schema_version: Literal[1] = SCHEMA
    image_id: str
    """Digest of the image's configuration: the engine that loads it must give the same."""
    tags: tuple[str, ...]
    """Names that it had; an archive by id holds none."""
    repo_digests: tuple[str, ...]
    labels: dict[str, str]
    base_digest: str | None
    lock_sha256: str | None
    """Of the lock that it was built from, as its label says; None for another image."""
    sha256: str
    """Of the archive, as it lies on disk."""
    size_bytes: int


def record_file(archive: Path) -> Path:
    """The record beside an archive."""
    return archive.with_name(f"{archive.name}.json")


def read_record(archive: Path) -> ArchiveRecord:
    """The record of an archive.

    Raises:
        ConfigError: it is missing, newer, or no record.
    """
    path = record_file(archive)
    try:
        data = path.read_bytes()
    except OSError as e:
        raise ConfigError(
            f"{path}: cannot be read ({e.strerror}); without it nobody can tell what {archive.name} should be"
        ) from None
    with contextlib.suppress(ValueError, AttributeError):
        version = json.loads(data).get("schema_version")
        if isinstance(version, int) and version > SCHEMA:
            raise ConfigError(f"{path}: schema {version} is newer than this harness knows ({SCHEMA}); update it")
    try:
        return ArchiveRecord.model_validate_json(data)
    except ValidationError as e:
        fault = e.errors(include_url=False)[0]
        raise ConfigError(f"{path}: no record of an archive: {fault['msg']}") from None
