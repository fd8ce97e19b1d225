"""From a bundle and its verdict to what people read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.evidence.bundle import Bundle, write_atomically, write_json
from harness.records import Verdict

if TYPE_CHECKING:
    from harness.judge.case import Case


def write_report(bundle: Bundle, verdict: Verdict, case: Case | None = None) -> Path:
    """Write report.md, report.html, jit.json and the tables into the bundle, and return the page's path.

    Args:
        bundle: Where the evidence lies, and where the report goes.
        verdict: What the judge made of it.
        case: The evidence, where the caller has read it already.
    """
    from harness.judge.case import read_case  # noqa: PLC0415  # heavy, like all below: other commands start faster
    from harness.report.about import about  # noqa: PLC0415
    from harness.report.html import page  # noqa: PLC0415
    from harness.report.ledgers import public_tree  # noqa: PLC0415
    from harness.report.markdown import comment  # noqa: PLC0415
    from harness.report.tables.write import write_tables  # noqa: PLC0415

    case = case or read_case(bundle)
    write_atomically(bundle.report_dir / "report.md", comment(case, verdict, about(case, verdict)).encode())
    write_json(bundle.report_dir / "jit.json", public_tree(case))
    write_tables(bundle.report_dir, case, verdict)
    target = bundle.report_dir / "report.html"
    write_atomically(target, page(case, verdict).encode())
    return target
