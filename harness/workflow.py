"""The steps of `qualify run`, each a function that can be called alone; nothing here prints."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import BundleError, SetupFailure
from harness.evidence.bundle import Bundle, write_record
from harness.evidence.exported import is_export
from harness.evidence.manifest import seal
from harness.judge.case import read_case
from harness.judge.verdict import judge_case
from harness.paths import PROJECT, results_root
from harness.records import Verdict
from harness.report import write_report
from harness.report.summary import summary_lines

PYTEST_USAGE = 4
PYTEST_INTERNAL = 3


def run_suites(bundle: Bundle, pytest_arguments: list[str]) -> int:
    """Run the suites over the bundle's plan, their own output going to pytest.log in the bundle.

    Raises:
        SetupFailure: pytest could not run the suites at all (a syntax error in one, say).
    """
    import pytest  # noqa: PLC0415  # only `run` pays for it

    plan = bundle.plan()
    lanes = len({x.lane for x in plan.launches})
    arguments = [
        str(PROJECT / "suites"),
        f"--qualify-bundle={bundle.root}",
        f"--rootdir={PROJECT}",
        "-p",
        "no:cacheprovider",
        "-v",
        "--capture=no",  # the progress display owns the terminal, and suites' output goes to the log
        *(["-n", str(lanes), "--dist", "loadgroup"] if lanes > 1 else []),
        *pytest_arguments,
    ]
    log = bundle.root / "pytest.log"
    with log.open("w", encoding="utf-8") as stream, _output_to(stream):
        code = int(pytest.main(arguments))
    if code in (PYTEST_INTERNAL, PYTEST_USAGE):
        raise SetupFailure(f"pytest could not run the suites; see {log}:\n{log.read_text('utf-8')[-2000:]}")
    return code


def finish(root: Path, interrupted: str | None) -> tuple[Verdict, list[str]]:
    """Close the bundle: its end, its manifest, its verdict, its report. Return verdict and last lines."""
    bundle = Bundle(root)
    run = bundle.run()
    ended = datetime.now(UTC).isoformat(timespec="seconds")
    write_record(bundle.run_file, run.model_copy(update={"ended_wall": ended, "interrupted": interrupted}))
    _anonymise_junit(root / "junit.xml")
    seal(root)
    return judge_and_report(bundle)


def judge_and_report(bundle: Bundle) -> tuple[Verdict, list[str]]:
    """Derive verdict and report from the evidence, again if they were there already."""
    case = read_case(bundle)
    verdict = judge_case(case)
    write_record(bundle.verdict_file, verdict)
    report = write_report(bundle, verdict, case)
    return verdict, summary_lines(verdict, report)


def bundle_at(place: str | None) -> Bundle:
    """The bundle at a path, or the newest one; an exported one is laid out beside itself.

    Raises:
        BundleError: there is none.
    """
    root = Path(place) if place else results_root() / "latest"
    if not (root / "plan.json").is_file():
        raise BundleError(f"{root} is no bundle (no plan.json); give the folder of a session below results/")
    if is_export(root):
        from harness.exporting import unpacked  # noqa: PLC0415  # only exports need it

        root = unpacked(root)
    return Bundle(root.resolve())


def _anonymise_junit(path: Path) -> None:
    """Pytest names the host in junit.xml; evidence must not."""
    import re  # noqa: PLC0415

    if path.is_file():
        text = path.read_text("utf-8")
        path.write_text(re.sub(r'hostname="[^"]*"', 'hostname="redacted"', text), "utf-8")


@contextlib.contextmanager
def _output_to(stream: object) -> Iterator[None]:
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):  # type: ignore[type-var]
        environment = dict(os.environ)
        path = list(sys.path)
        try:
            yield
        finally:
            sys.path[:] = path
            os.environ.clear()
            os.environ.update(environment)
