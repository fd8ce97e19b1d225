"""What a patch says it does, declared in the stack file before the run. The judge holds it to that.

Changes are candidate minus control, so a cost that the patch declares is a negative bound. Units
stand in the names.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from harness.config.strict import Strict

Kernel = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.:]*$")]
Percent = Annotated[float, Field(gt=-100)]


class LateJitRemoved(Strict):
    """These kernels are late in the control and not late in the candidate."""

    type: Literal["late_jit_removed"]
    kernels: tuple[Kernel, ...] = Field(..., min_length=1, description="as the engine's JIT monitor names them")

    @model_validator(mode="after")
    def _each_once(self) -> LateJitRemoved:
        if len(set(self.kernels)) != len(self.kernels):
            raise ValueError("kernels names a kernel twice")
        return self


class KvTokensMinChange(Strict):
    """The KV cache holds at least this many tokens more; a negative bound declares what the patch costs."""

    type: Literal["kv_tokens_min_change"]
    change_tokens: int | None = None
    change_pct: Percent | None = None

    @model_validator(mode="after")
    def _one_unit(self) -> KvTokensMinChange:
        if (self.change_tokens is None) == (self.change_pct is None):
            raise ValueError("give one bound, `change_tokens` or `change_pct`")
        return self


class FreeMibMin(Strict):
    """The candidate's lowest free memory per GPU, over the whole launch, is at least this."""

    type: Literal["free_mib_min"]
    mib: Annotated[float, Field(gt=0)]


class FreeMibMinChange(Strict):
    """The lowest free memory per GPU is at least this much higher than the control's."""

    type: Literal["free_mib_min_change"]
    change_mib: float


class ColdStartMaxChange(Strict):
    """A start with empty caches takes at most this much longer: what a prewarm moves to the start."""

    type: Literal["cold_start_max_change"]
    change_s: float | None = None
    change_pct: Percent | None = None

    @model_validator(mode="after")
    def _one_unit(self) -> ColdStartMaxChange:
        if (self.change_s is None) == (self.change_pct is None):
            raise ValueError("give one bound, `change_s` or `change_pct`")
        return self


class ThroughputMinChange(Strict):
    """A rate is at least this much higher, at one context length or at all of them."""

    type: Literal["throughput_min_change"]
    metric: Literal["prefill", "decode", "steps"]
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    change_pct: Percent


AnyClaim: TypeAlias = (
    LateJitRemoved | KvTokensMinChange | FreeMibMin | FreeMibMinChange | ColdStartMaxChange | ThroughputMinChange
)
Claim: TypeAlias = Annotated[AnyClaim, Field(discriminator="type")]


def subject(claim: AnyClaim) -> tuple[object, ...]:
    """What a claim is about: two claims about the same thing cannot both be the one that was declared."""
    if isinstance(claim, ThroughputMinChange):
        return claim.type, claim.metric, claim.context_tokens
    return (claim.type,)
