"""The figures of a session as tables, for those who make their own plots; see docs/tables.md."""

from __future__ import annotations

from harness.report.tables.columns import Table
from harness.report.tables.identity import IDENTITY
from harness.report.tables.late_jit import LATE_JIT
from harness.report.tables.launches import LAUNCHES
from harness.report.tables.memory import GPU_MEMORY, HOST_MEMORY
from harness.report.tables.passes import PASSES
from harness.report.tables.requests import REQUESTS
from harness.report.tables.rows import ROWS
from harness.report.tables.start_up import START_UP

TABLES: tuple[Table, ...] = (
    ROWS,
    LAUNCHES,
    PASSES,
    REQUESTS,
    START_UP,
    GPU_MEMORY,
    HOST_MEMORY,
    LATE_JIT,
    IDENTITY,
)
"""Every table, in the order in which they are explained."""
