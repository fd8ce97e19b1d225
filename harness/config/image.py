"""The container that the docker launcher starts: its image, pinned, and what surrounds the server in it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from harness.config.strict import Strict

Positive = Annotated[int, Field(ge=1)]

DIGEST_REFERENCE = re.compile(r"(?:[A-Za-z0-9.\-]+(?::\d+)?/)?[a-z0-9][a-z0-9._\-/]*@sha256:[0-9a-f]{64}")
OWN_FOLDER = "/qualify"
"""Where the launcher mounts model, caches and work folder; a profile's mounts go elsewhere."""


Limit = Annotated[int, Field(ge=-1)]


class Ulimits(Strict):
    """Limits of the server's processes, as `docker run --ulimit` takes them; -1 = unlimited, none = the engine's."""

    memlock: Limit | None = Field(None, description="bytes that may be pinned")
    stack: Limit | None = Field(None, description="bytes of stack")
    nofile: Positive | None = Field(None, description="open files")


class Mount(Strict):
    """A folder or file of this host that the server sees, read-only."""

    source: str = Field(..., min_length=1, description="path on this host; relative ones are below the project")
    target: str = Field(..., description="path in the container")

    @field_validator("target")
    @classmethod
    def _leaves_ours_alone(cls, target: str) -> str:
        path = PurePosixPath(target)
        if not path.is_absolute() or ".." in path.parts or path.as_posix() != target or target == "/":
            raise ValueError("write an absolute path below `/`, without `..` and without `/` at the end")
        if path.is_relative_to(OWN_FOLDER):
            raise ValueError(f"{OWN_FOLDER} is the launcher's own; choose another path")
        return target


class Image(Strict):
    """The container image that the docker launcher starts, and the container around it."""

    reference: str = Field(..., description="name@sha256:digest, the manifest's digest in its registry")
    shm_size_gib: Positive = 32
    ipc: Literal["private", "host"] = Field("private", description="host: /dev/shm is the host's, whatever its size")
    network: Literal["internal", "host"] = Field("internal", description="internal: a network without a way out")
    cdi: bool = Field(False, description="name GPUs to the engine by CDI, not through the NVIDIA runtime")
    gpu_access: Literal["engine", "device-nodes"] = Field(
        "engine", description="device-nodes: /dev/nvidia* of the GPUs, for engines without NVIDIA runtime and CDI"
    )
    mem_limit_mib: Positive | None = Field(None, description="memory of the container, swap included")
    ulimits: Ulimits = Ulimits()
    mounts: tuple[Mount, ...] = Field((), description="more of this host for the server to read")

    @field_validator("reference")
    @classmethod
    def _pinned(cls, reference: str) -> str:
        if not DIGEST_REFERENCE.fullmatch(reference):
            raise ValueError(
                f"`{reference}` is not pinned; write name@sha256:<64 hex digits> without a tag, as "
                "`docker image inspect --format '{{.RepoDigests}}' IMAGE` prints it"
            )
        return reference

    @model_validator(mode="after")
    def _one_way_to_the_gpus(self) -> Image:
        if self.cdi and self.gpu_access == "device-nodes":
            raise ValueError('image.cdi = true and image.gpu_access = "device-nodes" are two ways; keep one')
        return self
