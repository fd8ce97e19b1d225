"""What the first long prompt sets off in kernel libraries: compilations and loads, by their lines or by a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.fakes.faults import Faults
from harness.fakes.log_lines import write

CACHE = "TRITON_CACHE_DIR"


def compile_late(faults: Faults, environ: Mapping[str, str], ranks: int = 1) -> None:
    """As b12x tells it, line by line; Triton writes files and no line."""
    for name, outcome, status in (("late-compile", "miss", "disk-cache-miss"), ("late-load", "disk-hit", "disk-hit")):
        for fault in faults.all(name):
            for rank in faults.ranks(ranks):
                told = f"{outcome} reason=post-engine-start target=b12x.{fault.value} status={status}"
                write(f"[b12x cute.compile] {told}", rank)
    if faults.hit("late-file") and environ.get(CACHE):
        file = Path(environ[CACHE]) / "late" / "kernel.cubin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"compiled late")
