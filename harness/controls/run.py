"""Run controls one after the other, each as a session in a process of its own, and write down what each came to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.config.model import Profile
from harness.config.options import SETTINGS
from harness.controls.control import Control
from harness.controls.making import Made, make
from harness.controls.outcome import BUSY, got, outcome_of
from harness.controls.record import Outcome, Result, SelfTestReport
from harness.controls.summary import summary_text
from harness.errors import BundleError
from harness.evidence.bundle import Bundle, write_atomically, write_record
from harness.evidence.origin import origin
from harness.records import Verdict

QUALIFY = (sys.executable, "-m", "harness.cli")
BUILT_IN = "built-in"


def new_folder(results: Path) -> Path:
    """A folder of its own below the results, named after the time.

    It shares their work folder: forged models are made once, and what a killed session left is found by the next one.
    """
    name = f"selftest-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = (name, *(f"{name}-{n}" for n in range(2, 100)))
    folder = next(place for n in names if not (place := results / n).exists())
    folder.mkdir(parents=True)
    (results / ".work").mkdir(exist_ok=True)
    (folder / ".work").symlink_to(Path("..", ".work"))
    return folder


def run_controls(
    controls: Sequence[Control],
    folder: Path,
    profile: Profile | None,
    *,
    given: tuple[str, ...] = (),
    tell: Callable[[Result], None] = lambda _: None,
    program: Sequence[str] = QUALIFY,
) -> SelfTestReport:
    """Run every control and leave selftest.json, summary.md and its bundle in `folder`; what has ended is kept.

    Args:
        controls: in this order.
        folder: for everything that is written.
        profile: whose engine is asked where it can show a fault; None = the built-in server shows all.
        given: options that choose and change that profile.
        tell: is told each result as it comes.
        program: the command `qualify`.
    """
    source = origin()
    commit = f"{source.commit or 'unknown'}{' (changed since)' if source.dirty else ''}"
    name = BUILT_IN if profile is None else profile.name
    report = SelfTestReport(harness=commit, profile=name, planned=tuple(c.name for c in controls), results=())
    _write(folder, report)
    for control in controls:
        result = _run(control, made := make(control, folder, profile, given), folder, program)
        if BUSY in result.why and result.bundle:
            again = _run(control, made, folder, program)
            result = again.model_copy(update={"before": (result.bundle,), "seconds": result.seconds + again.seconds})
        report = report.model_copy(update={"results": (*report.results, result)})
        _write(folder, report)
        tell(result)
    for link in (".work", "latest"):  # of use while sessions run, and not among evidence
        if (folder / link).is_symlink():
            (folder / link).unlink()
    return report


def _write(folder: Path, report: SelfTestReport) -> None:
    write_record(folder / "selftest.json", report)
    write_atomically(folder / "summary.md", summary_text(report).encode())


def _run(control: Control, made: Made, folder: Path, program: Sequence[str]) -> Result:
    command = (*program, "run", *made.arguments)
    before, begin = set(_bundles(folder)), time.monotonic()
    log = folder / "inputs" / control.name / "qualify.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, env=_environment(folder, made.environment), stdout=stream, stderr=subprocess.STDOUT
        )
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()  # it was told so too, and stops its servers
            raise
    new = [b for b in _bundles(folder) if b not in before]
    verdict, trouble = _verdict(new, code, log)
    if verdict is None:
        outcome, why = Outcome.SETUP_FAILURE, trouble
    elif code != verdict.exit_code:
        outcome = Outcome.NOT_CAUGHT if control.worse else Outcome.FALSE_ALARM
        why = f"`qualify run` ended with code {code}, and its verdict says {verdict.exit_code}"
    else:
        outcome, why = outcome_of(control, verdict)
    return Result(
        control=control.name,
        worse=control.worse,
        engine=str(made.engine),
        expected=tuple(expected.text() for expected in control.expects),
        got=() if verdict is None else got(control, verdict),
        verdict=None if verdict is None else verdict.verdict,
        outcome=outcome,
        why=why,
        bundle=new[0].name if new else None,
        command=("qualify", "run", *made.arguments),
        seconds=round(time.monotonic() - begin, 1),
    )


def _bundles(folder: Path) -> Iterator[Path]:
    return (file.parent for file in sorted(folder.glob("*/plan.json")) if not file.parent.is_symlink())


def _verdict(bundles: Sequence[Path], code: int, log: Path) -> tuple[Verdict | None, str]:
    """The session's verdict, or why there is none."""
    last = (log.read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1]
    if len(bundles) != 1:
        return None, f"`qualify run` opened no session (exit code {code}): {last}"
    try:
        return Bundle(bundles[0]).verdict(), ""
    except BundleError as e:
        return None, f"`qualify run` left no verdict (exit code {code}): {e}"


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Ours, with the results in this folder, and without what would change the controls."""
    left_out = {"QUALIFY_PROFILE", *(setting.variable for setting in SETTINGS)}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "QUALIFY_RESULTS": str(folder), **more}
