"""What an arm resolved to: locks/ARM.json."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.records.base import SCHEMA_VERSION, Record
from harness.words import Arm


class ArmImage(Record):
    """The image that an arm's servers run in. Tag, ID and manifest digest are three things, never one."""

    name: str
    """What the engine is asked for: the pinned reference, or the ID of an image that was built here."""
    image_id: str
    """Digest of the image's configuration."""
    base_reference: str
    """name@sha256:digest of the manifest in its registry: of the image itself where nothing was built."""
    tag: str | None = None
    """Name of a built image on this host's engine."""
    base_image_id: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of a built image that say what is in it."""
    lock_sha256: str | None = None
    """Hash of the stack's lock (locks/ARM/lock.json), None for a stack without one."""
    builder: str | None = None
    """buildx or classic; None where nothing was built."""
    reused: bool | None = None
    """True when an earlier session had built the same lock."""
    build_log_sha256: str | None = None
    """Of locks/ARM/build.log; None where no log of the build is at hand."""


class Lock(Record):
    """What an arm resolved to (locks/ARM.json)."""

    schema_version: Literal[1] = SCHEMA_VERSION
    arm: Arm
    stack: str
    engine_version: str
    model: str
    model_sha256: dict[str, str]
    """SHA-256 per file of the model folder; empty for a hub name."""
    known_answers: bool
    """True when the model is a forged one and locks/ARM.truth.json holds its rule."""
    image: ArmImage | None = None
    """None for servers that are processes of this host."""
