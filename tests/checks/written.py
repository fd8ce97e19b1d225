"""Evidence of checks, written as a session writes it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from harness.checks.record import CheckDir, CheckRun
from harness.config.checks import Check
from harness.evidence.bundle import Bundle, write_record
from harness.records import Exit
from harness.words import Arm
from tests.checks.local import run_record


def write_check(
    bundle: Bundle,
    check: Check,
    arm: Arm,
    exit_: Exit | None,
    *,
    output: bytes = b"",
    report: bytes | None = None,
    **fields: object,
) -> CheckRun:
    """What a check left in one arm."""
    folder = CheckDir(bundle, check, arm)
    folder.root.mkdir(parents=True)
    folder.output_file.write_bytes(output)
    hashes = {"output_sha256": hashlib.sha256(output).hexdigest(), "output_bytes": len(output)}
    if report is not None and folder.report_file is not None:
        folder.report_file.write_bytes(report)
        hashes["report_sha256"] = hashlib.sha256(report).hexdigest()
    run = run_record(check, exit_, **{"arm": arm, **hashes, **fields})
    write_record(folder.record_file, run)
    return run


def junit(tests: Mapping[str, str]) -> bytes:
    """A report: test of tests/test_a.py to why it failed, '' for one that passed."""
    cases = [
        f'<testcase classname="tests.test_a" name="{name}" file="tests/test_a.py">'
        + (f'<failure message="{why}">long</failure>' if why else "")
        + "</testcase>"
        for name, why in tests.items()
    ]
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>".encode()
