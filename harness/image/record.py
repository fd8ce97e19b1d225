"""The image of an arm, as the engine described it after it was built or found again."""

from __future__ import annotations

from typing import Literal

from harness.records import Record


class BuiltImage(Record):
    """What a lock became. Tag, image ID and manifest digest are three things, and none stands for another."""

    tag: str | None
    """Name for people; nothing is ever started by it. None where the base itself is run."""
    image_id: str
    """Digest of the image's configuration, sha256:...: what containers are started from."""
    lock_sha256: str
    base_reference: str
    """name@sha256:digest, as the lock has it."""
    base_digest: str
    """Digest of the base's manifest: what a registry names."""
    base_image_id: str
    """Digest of the base's configuration on this engine."""
    labels: dict[str, str]
    """Every label of the image, those that it inherited included."""
    builder: Literal["buildx", "classic"] | None
    """None where nothing was built now: the image was there, or the lock changes no file of the base."""
    reused: bool
    """True for an image that an earlier build of the same lock left."""
    context_sha256: str | None
    """Of everything that the builder was given, beside the base; None where the base itself is run."""
    log_sha256: str | None
    """Of the build log as it was written; None where nothing was built."""
