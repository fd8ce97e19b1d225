"""Hand a summary to files and to commands of the user: their failure is said, and changes no verdict."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.evidence.bundle import write_atomically
from harness.nightly.summary import Summary, text_of

HOOK_S = 60.0
"""A hook that takes longer is ended."""
JSON_VARIABLE = "QUALIFY_SUMMARY_JSON"


def hand_over(summary: Summary, files: Sequence[str], hooks: Sequence[str]) -> Iterator[str]:
    """Write the files and run the hooks; a line for each that failed."""
    for name in files:
        text = summary.model_dump_json(indent=1) + "\n" if name.endswith(".json") else text_of(summary)
        try:
            write_atomically(Path(name), text.encode())
        except OSError as e:
            yield f"summary {name}: not written: {e.strerror}"
    for hook in hooks:
        if fault := _run(hook, summary):
            yield f"hook `{hook}`: {fault}; the verdict stands"


def _run(hook: str, summary: Summary) -> str | None:
    """Run a command, without a shell; what went wrong, or None."""
    try:
        done = subprocess.run(
            shlex.split(hook),
            input=text_of(summary),
            env={**os.environ, JSON_VARIABLE: summary.model_dump_json()},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=HOOK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"took longer than {HOOK_S:.0f} s and was ended"
    except (OSError, ValueError, IndexError) as e:
        return f"cannot be run: {e}"
    return f"exit code {done.returncode}: {done.stderr.strip()[-200:]}" if done.returncode else None
