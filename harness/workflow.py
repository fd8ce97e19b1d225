"""The steps of `qualify run`, each a function that can be called alone; nothing here prints."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import BundleError, ConfigError, QualifyError, SetupFailure
from harness.evidence import pipe
from harness.evidence.bundle import Bundle, write_atomically, write_record
from harness.evidence.exported import is_export
from harness.evidence.journal import read_journals
from harness.evidence.manifest import KILLED, MANIFEST, seal, seal_killed
from harness.evidence.predicates import ended_text
from harness.evidence.sessions import enter_end
from harness.evidence.stream import growing_text
from harness.judge.verdict import Judged, judged
from harness.paths import PROJECT, results_root
from harness.records import Verdict
from harness.report import write_report
from harness.report.sealing import seal_lines
from harness.report.summary import summary_lines
from harness.session.owner import abandoned, disown

PYTEST_USAGE = 4
PYTEST_INTERNAL = 3


def run_suites(bundle: Bundle, pytest_arguments: list[str]) -> int:
    """Run the suites over the bundle's plan, their own output going to pytest.log in the bundle.

    Raises:
        SetupFailure: pytest could not run the suites at all (a syntax error in one, say).
    """
    import pytest  # noqa: PLC0415  # only `run` pays for it

    from harness.session.undisturbed import Stopped  # noqa: PLC0415

    plan = bundle.plan()
    lanes = len({x.lane for x in plan.launches})
    arguments = [
        str(PROJECT / "suites"),
        f"--qualify-bundle={bundle.root}",
        f"--rootdir={PROJECT}",
        # Plugins of other packages of the environment change how a session runs, or end it: only these.
        "--disable-plugin-autoload",
        *("-p", "harness.session.plugin"),
        *("-p", "xdist"),
        *("-p", "no:cacheprovider"),
        "-v",
        "--capture=no",  # the progress display owns the terminal, and suites' output goes to the log
        *(["-n", str(lanes), "--dist", "loadgroup"] if lanes > 1 else []),
        *pytest_arguments,
    ]
    log = bundle.root / "pytest.log"
    interruption = Stopped()
    with growing_text(log) as stream, _output_to(stream):
        try:
            code = int(pytest.main(arguments, plugins=[interruption]))
        except Exception:
            if not interruption.stopped:
                raise
            traceback.print_exc(file=stream)
        if interruption.stopped:
            return int(pytest.ExitCode.INTERRUPTED)
    if code in (PYTEST_INTERNAL, PYTEST_USAGE):
        raise SetupFailure(f"pytest could not run the suites; see {log}:\n{log.read_text('utf-8')[-2000:]}")
    return code


def finish(root: Path, interrupted: str | None) -> tuple[Judged, list[str]]:
    """Close the bundle: its end, its manifest, its verdict, its report. Return what it came to, and last lines."""
    bundle = Bundle(root)
    run = bundle.run()
    ended = datetime.now(UTC).isoformat(timespec="seconds")
    write_record(bundle.run_file, run.model_copy(update={"ended_wall": ended, "interrupted": interrupted}))
    _anonymise_junit(root / "junit.xml")
    seal(root, ended_text(interrupted))
    found, lines = judge_and_report(bundle)
    lines += _enter_end(bundle, found.verdict, ended_text(interrupted))
    disown(root)
    return found, lines


def judge_and_report(bundle: Bundle) -> tuple[Judged, list[str]]:
    """Derive verdict and report from the evidence at a session's end, and state them."""
    found, report = _derived(bundle)
    told = _state(bundle)
    return found, [*seal_lines(found.case, found.verdict), *told, *summary_lines(found.verdict, report)]


def judge_again(bundle: Bundle) -> tuple[Verdict, list[str]]:
    """Derive verdict and report again. What the session stated is its own: it is compared, and never written."""
    from harness.evidence.statement import standing  # noqa: PLC0415  # heavy

    found, report = _derived(bundle)
    lines = seal_lines(found.case, found.verdict, standing(bundle))
    return found.verdict, [*lines, *summary_lines(found.verdict, report)]


def _derived(bundle: Bundle) -> tuple[Judged, Path]:
    found = judged(bundle)
    write_record(bundle.verdict_file, found.verdict)
    return found, write_report(bundle, found.verdict, found.case)


def _state(bundle: Bundle) -> list[str]:
    """State what the session came to, signed where this host's key is the one; say why it is not, a line each."""
    from harness.evidence.keys import load_key  # noqa: PLC0415  # heavy
    from harness.evidence.statement import write_statements  # noqa: PLC0415

    told = []
    try:
        key = load_key() if bundle.run().signer is not None else None
    except ConfigError as e:
        key = None
        told.append(f"not signed: {e}")
    write_statements(bundle, key)
    return told


def seal_abandoned() -> list[str]:
    """Seal what a killed harness left open; say what, one line each."""
    return [f"sealed as {KILLED}: {_close_killed(root)}" for root in abandoned()]


def _close_killed(root: Path) -> str:
    bundle = Bundle(root)
    if (root / pipe.FOLDER).is_dir():
        if not (root / MANIFEST).exists():
            with contextlib.suppress(BundleError):  # killed before there was a run.json
                write_record(bundle.run_file, bundle.run().model_copy(update={"interrupted": "killed"}))
            seal_killed(root)
        if not bundle.ledger_end_file.exists():
            seen = read_journals(root)  # it may have been sealed, and killed before the ledger knew of it
            _enter_end(bundle, None, (seen and seen.ended) or KILLED)
    disown(root)
    return root.name


def _enter_end(bundle: Bundle, verdict: Verdict | None, ended: str) -> list[str]:
    """A ledger that cannot be written must not cost the verdict too: the session stays without an end there."""
    try:
        enter_end(bundle, verdict, ended)
    except (SetupFailure, BundleError) as e:
        return [str(e)]
    return []


def remember(bundle: Bundle, found: Judged | None = None) -> list[str]:
    """Take a finished session into the host's history. What keeps it out is said, and changes no verdict.

    `found` is what it came to a moment ago; without it, the evidence is read and judged again.
    """
    from harness.history.importing import import_bundle, opened  # noqa: PLC0415

    notes: list[str] = []
    try:
        with opened(notes) as index:
            import_bundle(index, bundle, found)
    except (QualifyError, OSError, sqlite3.Error) as e:
        return [*notes, f"history: this session was not taken in: {e}"]
    return notes


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
        write_atomically(path, re.sub(r'hostname="[^"]*"', 'hostname="redacted"', text).encode())


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
