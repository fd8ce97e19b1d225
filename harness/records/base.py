"""What every record of a bundle is, and the stages at which a launch can fail."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION: Literal[1] = 1
"""Bumped when a field changes meaning or goes; the reader refuses newer bundles."""

MEASUREMENT_VERSION = 1
"""Bumped when a figure is measured otherwise, so that it is not compared with older ones."""

GPU_STAGE = "gpu"
"""Stage of a launch whose GPUs were not free: that tells nothing about an arm either."""

ENGINE_STAGE = "engine"
"""Stage of a launch that failed because what runs containers did: that tells nothing about an arm."""
IMAGE_STAGE = "image"
"""Stage of a launch whose container does not hold what its lock says: it measured something else."""

KINDS_STAGE = "request kinds"
"""Stage of a launch that ended under a request-kind probe: all that is measured was measured before."""


class Record(BaseModel):
    """A frozen record; an unknown field means a bundle of another harness."""

    model_config = ConfigDict(extra="forbid", frozen=True)
