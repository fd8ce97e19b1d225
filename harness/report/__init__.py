"""From a bundle and its verdict to what people read."""

from __future__ import annotations

from pathlib import Path

from harness.evidence.bundle import Bundle, write_atomically
from harness.records import Verdict


def write_report(bundle: Bundle, verdict: Verdict) -> Path:
    """Write report.md and report.html into the bundle, and return the page's path."""
    from harness.judge.case import read_case  # noqa: PLC0415  # heavy, and judge has it open already
    from harness.report.html import page  # noqa: PLC0415
    from harness.report.markdown import comment  # noqa: PLC0415

    case = read_case(bundle)
    write_atomically(bundle.report_dir / "report.md", comment(case, verdict).encode())
    target = bundle.report_dir / "report.html"
    write_atomically(target, page(case, verdict).encode())
    return target
