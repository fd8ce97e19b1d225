"""A self-test for a person: a table, and the controls that are not as they must be, by name."""

from __future__ import annotations

from harness.controls.record import Outcome, Result, SelfTestReport
from harness.report.escape import inline

WIDTH = 160
GOOD = (Outcome.CAUGHT, Outcome.PASSED)


def result_line(result: Result) -> str:
    """`less-kv                 caught         7.1 s  built-in fake server`, and why not, where it is not."""
    line = f"{result.control:<22} {result.outcome:<14} {result.seconds:6.1f} s  {result.engine}"
    return line if result.outcome in GOOD else f"{line}\n    {result.why}"


def closing_lines(report: SelfTestReport) -> list[str]:
    """What it all comes to, with the names of what was not seen."""
    lines = []
    for outcome, meaning in (
        (Outcome.NOT_CAUGHT, "NOT CAUGHT: this harness does not see these faults, so do not trust its verdicts"),
        (Outcome.FALSE_ALARM, "FALSE ALARM: equal arms did not pass, so do not trust its verdicts"),
        (Outcome.SETUP_FAILURE, "setup failure: these could not run here, so nobody knows"),
    ):
        if names := [r.control for r in report.results if r.outcome is outcome]:
            lines.append(f"{meaning}: {', '.join(names)}")
    if not report.complete:
        done = {r.control for r in report.results}
        lines.append(f"not come to: {', '.join(name for name in report.planned if name not in done)}")
    good = sum(r.outcome in GOOD for r in report.results)
    return [*lines, f"{good} of {len(report.planned)} controls are as they must be (exit code {int(report.exit_code)})"]


def summary_text(report: SelfTestReport) -> str:
    """summary.md."""
    head = [
        "# Self-test of the harness",
        "",
        f"Harness {report.harness}, profile {report.profile}. Each control is a candidate whose verdict is known.",
        "",
        "| control | what is worse | expected | got | outcome | engine | seconds | bundle |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [f"| {' | '.join(_parts(result))} |" for result in report.results]
    return "\n".join([*head, *rows, "", *closing_lines(report), ""])


def _parts(result: Result) -> tuple[str, ...]:
    """Cells; reasons quote logs, so they are escaped."""
    got = [f"{g.row}: {g.word}: {_short(g.reason)}" for g in result.got] or [_short(result.why)]
    return (
        result.control,
        inline(result.worse) or "nothing",
        "<br>".join(map(inline, result.expected)),
        "<br>".join(map(inline, got)),
        str(result.outcome),
        result.engine,
        f"{result.seconds:.1f}",
        result.bundle or "none",
    )


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
