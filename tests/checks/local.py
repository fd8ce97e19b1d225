"""Real pytest, ruff and mypy over a few files, started as a check starts them, and read as the judge reads them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from harness.checks.finding import Result
from harness.checks.read import read_result
from harness.checks.record import REPORTS, CheckRun, Source
from harness.checks.tree import OUT, WORK, command_of, rootdir
from harness.config.checks import Check, Kind
from harness.records import Exit
from harness.words import Arm

PACKAGE = "pkg"
TOOLS: dict[Kind, tuple[str, ...]] = {
    Kind.PYTEST: (sys.executable, "-m", "pytest", "--noconftest"),
    Kind.RUFF: (str(Path(sysconfig.get_path("scripts")) / "ruff"), "check", "--isolated", "--select", "F,E9"),
    Kind.MYPY: (sys.executable, "-m", "mypy", "--strict"),
}


def check(kind: Kind = Kind.PYTEST, command: Sequence[str] = ("tool",), **fields: object) -> Check:
    return Check.model_validate({"name": "c", "kind": kind, "command": tuple(command), "component": PACKAGE, **fields})


def ended(code: int | None = 0, **fields: object) -> Exit:
    return Exit.model_validate({"code": code, "signal": None, "asked": False, **fields})


def run_record(of: Check, exit_: Exit | None, **fields: object) -> CheckRun:
    """The record of a run that ended so."""
    known: dict[str, object] = {"command": of.command, "folder": rootdir(of.component), "begin_ns": 1, "end_ns": 2}
    source = Source(roots={rootdir(PACKAGE): ""}, packages=(PACKAGE,))
    return CheckRun.model_validate(
        {"check": of, "arm": Arm.CANDIDATE, "exit": exit_, "source": source, "begin_wall": "", **known, **fields}
    )


class Project:
    """A package and its tests in a folder, and the tools over them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write({f"{PACKAGE}/__init__.py": ""})

    def write(self, files: dict[str, str]) -> Project:
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, "utf-8")
        return self

    def run(self, kind: Kind, *paths: str, options: Sequence[str] = ()) -> Result:
        """What the tool shows about these files."""
        files = sorted(str(p.relative_to(self.root)) for path in paths for p in self.root.glob(path))
        of = check(kind, (*TOOLS[kind], *options, *(str(self.root / f) for f in files)))
        out = self.root / "out"
        out.mkdir(exist_ok=True)
        places = {OUT: str(out), WORK: str(self.root / "work"), rootdir(PACKAGE): str(self.root)}
        done = subprocess.run(
            [_moved(argument, places) for argument in command_of(of, Source())],
            cwd=self.root,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(self.root),
                "MYPYPATH": str(self.root),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        report = out / REPORTS.get(kind, "none")
        source = Source(roots={rootdir(PACKAGE): "", str(self.root): ""}, packages=(PACKAGE,))
        run = run_record(of, ended(done.returncode), folder=str(self.root), source=source)
        result = read_result(run, done.stdout, report.read_bytes() if report.is_file() else None)
        report.unlink(missing_ok=True)
        return result


def _moved(argument: str, places: dict[str, str]) -> str:
    for there, here in places.items():
        argument = argument.replace(there, here)
    return argument
