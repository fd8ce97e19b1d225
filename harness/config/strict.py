"""The base of every configuration model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Unknown keys are errors, values never change after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
