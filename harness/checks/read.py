"""From a check's evidence to what it showed. Pure: the judge reads the same bundle the same way each time."""

from __future__ import annotations

import re

from harness.checks.finding import Fault, Finding, Result
from harness.checks.junit import BrokenReportError, read_junit
from harness.checks.linters import CUT_SHORT, read_mypy, read_ruff
from harness.checks.record import REPORTS, CheckRun
from harness.checks.tree import rootdir
from harness.config.checks import Kind

_NO_TOOL = re.compile(
    r"^\S*python[\d.]*: (?:Error while finding module specification for \S+ \(ModuleNotFoundError: )?"
    r"No module named '?([\w.]+)",
    re.MULTILINE,
)

PYTEST_PASSED, PYTEST_FAILED, PYTEST_INTERRUPTED, PYTEST_NOTHING = 0, 1, 2, 5
LINTER_CLEAN, LINTER_FAILED, LINTER_STOPPED = 0, 1, 2


def read_result(run: CheckRun, output: bytes, report: bytes | None) -> Result:
    """What one arm's run showed.

    Args:
        run: its record.
        output: what it printed.
        report: junit.xml or ruff.json, None where there is none.
    """
    if fault := _not_ended(run):
        return Result(fault=fault)
    text = output.decode("utf-8", "backslashreplace")
    tool = _NO_TOOL.search(text)
    if tool and report is None and run.exit and run.exit.code == 1 and not _is_own(tool[1], run):
        return Result(fault=Fault(f"{tool[1]} is not installed in the image", environment=True))
    if report is None and run.check.kind in REPORTS:
        return Result(fault=_no_report(run, text))
    code = run.exit.code if run.exit else None
    match run.check.kind:
        case Kind.PYTEST:
            return _pytest(run, report or b"", code)
        case Kind.RUFF:
            return _ruff(run, report or b"", code)
        case Kind.MYPY:
            return _mypy(run, text, code)
        case Kind.COMMAND:
            return Result() if code == 0 else Result((Finding("", "", "the command fails"),))


def _not_ended(run: CheckRun) -> Fault | None:
    """Why it did not end by itself, or was never there."""
    if run.fault:
        return Fault(run.fault, environment=True)
    if run.exit is None:
        return Fault("nobody saw its end", environment=True)
    if run.exit.oom_killed:
        return Fault(run.exit.how, environment=False)
    if run.stopped:
        return Fault(run.stopped, environment=False)
    if run.exit.error:
        return Fault(f"{run.command[0]}: {run.exit.error}", environment=True)
    if run.exit.signal or (run.exit.code or 0) > 128:
        return Fault(f"it ended with {run.exit.how}", environment=False)
    return None


def _no_report(run: CheckRun, text: str) -> Fault:
    code = run.exit.code if run.exit else None
    usage = code in ((3, 4) if run.check.kind is Kind.PYTEST else (LINTER_STOPPED,))
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    why = run.report_fault or "it left none"
    reason = f"no {REPORTS[run.check.kind]}: {why} (exit code {code}{f'; it printed: {last[:200]}' if last else ''})"
    return Fault(reason, environment=usage)


def _is_own(module: str, run: CheckRun) -> bool:
    return module.partition(".")[0] in run.source.packages


def _pytest(run: CheckRun, report: bytes, code: int | None) -> Result:
    root = rootdir(run.check.component)
    try:
        found = read_junit(report, folder=root, roots=run.source.roots, packages=run.source.packages)
    except BrokenReportError as e:
        return Result(fault=Fault(f"junit.xml cannot be read: {e}", environment=False))
    bad = bool(found.uncollected) or any(node.state == "failed" for node in found.tests.values())
    # A report that says otherwise than pytest's own exit code was written by somebody else.
    if code not in (PYTEST_PASSED, PYTEST_FAILED, PYTEST_INTERRUPTED, PYTEST_NOTHING):
        return Result(fault=Fault(f"pytest ended with exit code {code}", environment=True))
    if bad != (code in (PYTEST_FAILED, PYTEST_INTERRUPTED)) or (code == PYTEST_NOTHING and found.tests):
        said = "failures" if bad else "no failure"
        return Result(fault=Fault(f"exit code {code}, but junit.xml shows {said}", environment=False))
    cut_short = "pytest was interrupted" if code == PYTEST_INTERRUPTED and not found.uncollected else None
    return Result(tests=found.tests, uncollected=found.uncollected, cut_short=cut_short)


def _ruff(run: CheckRun, report: bytes, code: int | None) -> Result:
    if code not in (LINTER_CLEAN, LINTER_FAILED):
        return Result(fault=Fault(f"ruff ended with exit code {code}", environment=True))
    try:
        findings = read_ruff(report, folder=run.folder, roots=run.source.roots)
    except ValueError as e:
        return Result(fault=Fault(f"ruff.json cannot be read: {e}", environment=False))
    return _agreeing("ruff", findings, code)


def _mypy(run: CheckRun, text: str, code: int | None) -> Result:
    try:
        findings = read_mypy(text, folder=run.folder, roots=run.source.roots)
    except ValueError as e:
        # An error without a line is about a file or an option, and mypy stops at it.
        return Result(fault=Fault(str(e), environment=code == LINTER_STOPPED))
    if code == LINTER_STOPPED and findings:
        return Result(findings, cut_short=CUT_SHORT)
    if code not in (LINTER_CLEAN, LINTER_FAILED):
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        return Result(fault=Fault(f"mypy ended with exit code {code}: {last[:200]}", environment=True))
    return _agreeing("mypy", findings, code)


def _agreeing(tool: str, findings: tuple[Finding, ...], code: int) -> Result:
    if bool(findings) != (code == LINTER_FAILED):
        reason = f"{tool} ended with exit code {code}, and {len(findings)} findings could be read"
        return Result(fault=Fault(reason, environment=False))
    return Result(findings)
