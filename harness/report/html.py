"""One self-contained HTML page."""

from harness.judge.case import Case
from harness.records import Verdict


def page(case: Case, verdict: Verdict) -> str:
    """The page."""
    return "<html></html>"
