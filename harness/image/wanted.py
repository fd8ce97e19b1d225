"""What an image is to be, and why another one is not it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from harness.image.base import Base
from harness.image.names import labels_of, tag_of
from harness.launch.docker.engine import Json
from harness.stack.record import StackLock


@dataclass(frozen=True)
class Wanted:
    """The image of a lock on a base, made from one build context."""

    lock: StackLock
    base: Base
    context_sha256: str

    @property
    def tag(self) -> str:
        """Its name for people."""
        return tag_of(self.lock, self.context_sha256)

    @property
    def labels(self) -> dict[str, str]:
        """What it says of itself, beside what it inherits."""
        return labels_of(self.lock, context_sha256=self.context_sha256, base_image_id=self.base.image_id)

    @property
    def arguments(self) -> dict[str, str]:
        """Arguments of the Dockerfile."""
        return {"BASE_IMAGE": self.base.reference, "BASE_USER": self.base.user}

    def faults(self, described: Json) -> list[str]:
        """Why an image is not this one. Its name is no reason to believe anything."""
        labels = described["Config"].get("Labels") or {}
        wrong = [
            f"label {name} is {labels.get(name, 'missing')}, expected {value}"
            for name, value in (self.base.labels | self.labels).items()
            if labels.get(name) != value
        ]
        return wrong + self.base.differences(described)
