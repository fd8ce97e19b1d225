"""What the tracer would write inside a server with kernels, where the launch is a trace and faults ask for it.

The real tracer runs in this process too; it finds no kernel library here, and these lines follow its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.fakes.faults import Faults
from harness.fakes.log_lines import worker_pid

TRACE_VARIABLE = "QUALIFY_TRACE"
TRACE_FORMAT = 1
COMPILE_S = 0.005


def hooks(faults: Faults, ranks: int = 1) -> None:
    """Say that Triton is hooked, or that its hook does not fit."""
    changed = faults.hit("trace-changed")
    state = ("changed", "triton.compiler.compiler has no compile") if changed else ("hooked", "compile; triton 3.6.0")
    if any(faults.hit(name) for name in ("trace-changed", "trace-late", "trace-warm", "trace-mismatch", "trace-sees")):
        hook = "triton.compiler.compiler"
        for rank in range(ranks):
            if ranks > 1:  # of a single process the real tracer has told already
                _write({"record": "process", "format": TRACE_FORMAT}, rank)
            _write({"record": "hook", "hook": hook, "status": state[0], "detail": state[1]}, rank)


def warm_up(faults: Faults, ranks: int = 1) -> None:
    """Kernels of the engine's warm-up, on every rank."""
    for rank in range(ranks):
        for fault in faults.all("trace-warm"):
            _compile(fault.value, {}, rank)
        for kernel, warm, _ in _mismatches(faults):
            _compile(kernel, warm, rank)


def first_long_prompt(faults: Faults, ranks: int = 1) -> None:
    """Kernels that the first long prompt needs."""
    for rank in faults.ranks(ranks):
        for fault in faults.all("trace-late"):
            _compile(fault.value, {}, rank)
        for kernel, _, served in _mismatches(faults):
            _compile(kernel, served, rank)


def _mismatches(faults: Faults) -> Iterator[tuple[str, dict[str, int], dict[str, int]]]:
    """`KERNEL/SIZE:1:4/BLOCK:8:8`: name, value in the warm-up, value while serving."""
    for fault in faults.all("trace-mismatch"):
        kernel, *constants = fault.value.split("/")
        parts = [c.split(":") for c in constants]
        yield kernel, {n: int(w) for n, w, _ in parts}, {n: int(s) for n, _, s in parts}


def _compile(kernel: str, constexprs: Mapping[str, int], rank: int) -> None:
    begin = time.monotonic_ns()
    time.sleep(COMPILE_S)
    _write(
        {
            "record": "kernel",
            "event": "compile",
            "backend": "Triton",
            "kernel": kernel,
            "module": "fake.kernels",
            "begin_ns": begin,
            "end_ns": time.monotonic_ns(),
            "thread": "MainThread",
            "rank": rank,
            "rank_from": "RANK",
            "constexprs": dict(constexprs),
            "signature": {"out": "*bf16"},
            "origin": "compiled",
            "autotune": False,
            "error": None,
        },
        rank,
    )


def _write(record: Mapping[str, Any], rank: int) -> None:
    folder = os.environ.get(TRACE_VARIABLE)
    if not folder:
        return
    pid = worker_pid(rank)
    line = json.dumps({**record, "pid": pid, "mono_ns": time.monotonic_ns()}) + "\n"
    with (Path(folder) / f"{pid}.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(line)
