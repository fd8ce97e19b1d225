"""The base image on this engine: the one that the lock pins, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.errors import SetupFailure
from harness.launch.docker.engine import Engine, EngineError, EngineGone, Json, Missing
from harness.stack.record import StackLock

KEPT = (
    *("User", "Env", "Entrypoint", "Cmd", "WorkingDir", "Volumes"),
    *("ExposedPorts", "StopSignal", "Healthcheck", "Shell"),
)
"""Settings of an image that patching must not touch."""


@dataclass(frozen=True)
class Base:
    """The image that files are laid over."""

    reference: str
    description: Json

    @property
    def image_id(self) -> str:
        """Digest of its configuration."""
        return str(self.description["Id"])

    @property
    def user(self) -> str:
        """Who runs in it; '' where it says nothing."""
        return str(self.description["Config"].get("User") or "")

    @property
    def labels(self) -> dict[str, str]:
        """What its makers wrote on it."""
        return dict(self.description["Config"].get("Labels") or {})

    def differences(self, image: Json) -> list[str]:
        """What an image that was made from this one has otherwise, beside its last layers and its labels."""
        layers, own = self.description["RootFS"]["Layers"], image["RootFS"]["Layers"]
        lines = [] if own[: len(layers)] == layers else ["its lower layers are not those of the base image"]
        for key in KEPT:
            was, is_ = (described["Config"].get(key) or None for described in (self.description, image))
            if was != is_:
                lines.append(f"{key} is {is_}, in the base image {was}")
        return lines


def base_image(engine: Engine, lock: StackLock, tell: Callable[[str], None]) -> Base:
    """The lock's base image, fetched by its digest if it is not here.

    Raises:
        SetupFailure: it cannot be had, or what came has another digest.
    """
    reference, digest = lock.base.reference, lock.base.digest
    try:
        try:
            described = engine.image(reference)
        except Missing:
            tell(f"fetching {reference}")
            engine.pull(reference)
            described = engine.image(reference)
    except EngineGone as e:
        raise SetupFailure(str(e)) from e
    except EngineError as e:
        raise SetupFailure(
            f"base image {reference} is not on this host and cannot be fetched: {e}; check name and digest in the "
            "stack's [base], log in to its registry, or bring the image with its digest"
        ) from e
    digests = [str(entry).partition("@")[2] for entry in described.get("RepoDigests") or ()]
    if digest not in digests:
        found = ", ".join(digests) or "none"
        raise SetupFailure(f"base image {reference}: expected the manifest digest {digest}, the engine has {found}")
    return Base(reference, described)


def refuse_unfit(base: Base, lock: StackLock) -> None:
    """Some images cannot be laid over: a volume hides what is written below it, and triggers change more than files.

    Raises:
        SetupFailure: a copy lies in a volume, or the image has triggers.
    """
    if triggers := base.description["Config"].get("OnBuild"):
        raise SetupFailure(f"base image {base.reference} has ONBUILD triggers, which would run: {'; '.join(triggers)}")
    volumes = [PurePosixPath(path) for path in base.description["Config"].get("Volumes") or ()]
    hidden = [
        f"  {component.name}: {place} lies in the volume {volume}"
        for component in lock.components
        for file in component.files
        for place in file.copies
        for volume in volumes
        if PurePosixPath(place).is_relative_to(volume)
    ]
    if hidden:
        lines = "\n".join(hidden)
        raise SetupFailure(
            f"base image {base.reference} declares volumes, and a file in one is not part of an image\n{lines}\n"
            "Use a base image without them"
        )
