"""A python that has a stub for vLLM."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from harness.paths import PROJECT


def stub_python(folder: Path, bench: str) -> str:
    """Its `bench serve` behaves as told; stub_vllm says how."""
    python = folder / f"python-{bench}"
    words = [sys.executable, "-m", "tests.benchmarks.stub_vllm", bench]
    path = shlex.quote(str(PROJECT))
    python.write_text(f'#!/bin/sh\ncd {path} && PYTHONPATH={path} exec {shlex.join(words)} "$@"\n', "utf-8")
    python.chmod(0o755)
    return str(python)
