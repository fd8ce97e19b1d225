"""Verify bundles, each in a process of its own, and say how much memory that took.

    python -m tests.verification.measured PLACE...

A line of JSON per place: what it took at its peak in MiB, how much of that was there before (the program itself),
what the largest of its children took, what was said, and the exit code that it would have been.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import pyarrow.parquet  # noqa: F401  # part of the program, not of a bundle
import scipy.stats  # noqa: F401

from harness.errors import QualifyError
from harness.report import html, markdown  # noqa: F401
from harness.verification.verify import verify


def main() -> None:
    """Fork per place: what is imported is shared."""
    for place in sys.argv[1:]:
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
            before = pages * resource.getpagesize() >> 20
            try:
                outcome = verify(place)
                said, code = [str(m) for m in outcome.mismatches], 0 if outcome.verifies else 5
            except QualifyError as e:
                said, code = [str(e)], int(e.exit_code)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
            told = {"before": before, "peak": peak, "children": children, "said": said[:20], "code": code}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
