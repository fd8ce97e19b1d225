"""Both arms of a check, read back from the bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.checks.compare import Comparison, compare
from harness.checks.finding import Result
from harness.checks.read import read_result
from harness.checks.record import CheckDir, CheckRun
from harness.config.checks import Check
from harness.evidence.bundle import Bundle
from harness.words import Arm


@dataclass(frozen=True)
class Checked:
    """What a check left, and what it shows."""

    check: Check
    runs: Mapping[Arm, CheckRun]
    """Arms in which it has an end."""
    results: Mapping[Arm, Result]
    broken: str | None
    """Why the evidence is not what the check left, or None."""
    sources: tuple[str, ...]
    """Its files, from the bundle's folder."""

    @property
    def not_run(self) -> str | None:
        """Why there is nothing to compare though nothing is wrong, or None."""
        if missing := [arm for arm in Arm if arm not in self.runs]:
            return f"it has no end in the {' and the '.join(missing)}: left out by the selection, or interrupted before"
        reasons = [self.runs[arm].not_run for arm in Arm]
        # Nothing to look at in one arm alone is a result: there is no finding in a file that is not there.
        return reasons[0] if all(reasons) else None

    @property
    def gone(self) -> tuple[str, ...]:
        """Test files that only the control's lock has; told also where they leave nothing to run."""
        run = self.runs.get(Arm.CANDIDATE)
        return compare(Result(), Result(), gone=run.source.gone).vanished if run is not None else ()

    @property
    def comparison(self) -> Comparison:
        """Candidate against control; only where both have an end."""
        source = self.runs[Arm.CANDIDATE].source
        control, candidate = (self.results[arm] for arm in (Arm.CONTROL, Arm.CANDIDATE))
        return compare(control, candidate, brought=source.brought, gone=source.gone)


def read_checked(bundle: Bundle, check: Check) -> Checked:
    """Read a check's evidence.

    Raises:
        BundleError: a record is newer or broken.
    """
    runs: dict[Arm, CheckRun] = {}
    results: dict[Arm, Result] = {}
    broken: list[str] = []
    sources: list[str] = []
    for arm in Arm:
        folder = CheckDir(bundle, check, arm)
        if (run := folder.record()) is None:
            continue
        runs[arm] = run
        output, report = _content(folder.output_file), _content(folder.report_file)
        kept = ((folder.output_file, output, run.output_sha256), (folder.report_file, report, run.report_sha256))
        for path, content, expected in kept:
            if expected is not None and (content is None or hashlib.sha256(content).hexdigest() != expected):
                broken.append(f"{_name(bundle, path)} is not what the check left: a full disk, or changed since")
        results[arm] = Result() if run.not_run else read_result(run, output or b"", report)
        sources += [_name(bundle, p) for p in (folder.record_file, folder.output_file, folder.report_file) if _is(p)]
    return Checked(check, runs, results, broken[0] if broken else None, tuple(sources))


def _content(path: Path | None) -> bytes | None:
    return path.read_bytes() if path is not None and path.is_file() else None


def _is(path: Path | None) -> bool:
    return path is not None and path.is_file()


def _name(bundle: Bundle, path: Path | None) -> str:
    return path.relative_to(bundle.root).as_posix() if path is not None else ""
