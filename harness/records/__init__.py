"""The records of a bundle: what is written once by the harness and read back by judge and report.

Times named `_ns` are CLOCK_MONOTONIC nanoseconds of the host, comparable within one boot;
`wall` is UTC in ISO 8601. A value that was not obtained is None, never 0.
"""

from __future__ import annotations

from harness.records.asking import CheckRecord, FrozenPrompts, OutputRecord, RequestRecord, Usage, Window
from harness.records.base import (
    ENGINE_STAGE,
    GPU_STAGE,
    IMAGE_STAGE,
    KINDS_STAGE,
    MEASUREMENT_VERSION,
    SCHEMA_VERSION,
    Record,
)
from harness.records.gpu import GpuEvent, GpuFacts, GpuProcess, GpuSampling, GpuState, GpuWatch
from harness.records.launch import ContainerFacts, Exit, LaunchRecord, Mark
from harness.records.lock import ArmImage, Lock
from harness.records.plan import HostFacts, Origin, Plan, PlannedLaunch, Run, Signer
from harness.records.verdict import Row, Verdict

__all__ = [
    "ENGINE_STAGE",
    "GPU_STAGE",
    "IMAGE_STAGE",
    "KINDS_STAGE",
    "MEASUREMENT_VERSION",
    "SCHEMA_VERSION",
    "ArmImage",
    "CheckRecord",
    "ContainerFacts",
    "Exit",
    "FrozenPrompts",
    "GpuEvent",
    "GpuFacts",
    "GpuProcess",
    "GpuSampling",
    "GpuState",
    "GpuWatch",
    "HostFacts",
    "LaunchRecord",
    "Lock",
    "Mark",
    "Origin",
    "OutputRecord",
    "Plan",
    "PlannedLaunch",
    "Record",
    "RequestRecord",
    "Row",
    "Run",
    "Signer",
    "Usage",
    "Verdict",
    "Window",
]
