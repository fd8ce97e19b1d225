"""How long, how closely and how much: timeouts, sampling, gates, estimates, nights."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from harness.config.strict import Strict

Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]


def check_pairs(pairs: int) -> None:
    """Refuse a number of pairs that ABBA blocks cannot hold.

    Raises:
        ValueError: it is odd, and not 1.
    """
    if pairs > 1 and pairs % 2:
        raise ValueError(f"pairs = {pairs}: ABBA blocks need 1 or an even number of pairs")


class Timeouts(Strict):
    """How long each stage may take before the launch counts as failed."""

    health_s: PositiveFloat = 600.0
    model_named_s: PositiveFloat = 30.0
    first_request_s: PositiveFloat = 300.0
    request_s: PositiveFloat = 600.0
    stop_s: PositiveFloat = 30.0
    gpu_release_s: PositiveFloat = 60.0
    """For GPU memory to be back after a server's end, and for other processes to be gone before the next."""


class Observe(Strict):
    """How closely a launch is watched."""

    gpu_memory_hz: float = Field(20.0, ge=20, le=100, description="readings of GPU memory per second")


class Thermal(Strict):
    """When a lane's GPUs count as warmed up: the gate of its last burn-in launch."""

    slope_c_per_min: PositiveFloat = Field(1.0, description="temperature may still change by less than this")
    window_s: PositiveFloat = Field(60.0, description="seconds over which the slope is taken")
    longest_s: float = Field(300.0, ge=0, description="seconds of load at most, 0 = no gate")


class Client(Strict):
    """The self-test of the harness's own client, before anything is measured."""

    selftest_streams: Positive = Field(64, description="streams side by side, 50 tokens/s each")
    selftest_s: float = Field(2.0, ge=0, description="seconds of the paced part, 0 = no self-test")


class Gates(Strict):
    """Margins beyond which a difference counts. Percentages are of the control's figure."""

    throughput_pct: PositiveFloat = 3.0
    steps_pct: PositiveFloat = 2.0
    startup_pct: PositiveFloat = 5.0
    kv_tokens_pct: PositiveFloat = 1.0
    free_mib_warn: PositiveFloat = 512.0
    free_mib_fail: PositiveFloat = 256.0
    kept_mib_warn: PositiveFloat = 64.0
    near_tie_nat: PositiveFloat = 0.1


class Estimate(Strict):
    """Rough durations, only to tell the user how long a session will take."""

    start_cold_s: PositiveFloat = 300.0
    start_warm_s: PositiveFloat = 120.0
    course_s: PositiveFloat = 240.0


class Nightly(Strict):
    """`qualify nightly`: today's stack against the last accepted anchor, and what is kept of it."""

    pairs: Positive = Field(4, description="pairs of launches per warm cell; 1 or even")
    smallest_change_pct: PositiveFloat = Field(1.0, description="a lasting change below this is none")
    keep: int = Field(0, ge=0, description="newest nights whose evidence is kept, 0 = all")
    delete: bool = Field(False, description="delete what is beyond `keep`; false = only say what would go")

    @model_validator(mode="after")
    def _balanced(self) -> Nightly:
        check_pairs(self.pairs)
        return self
