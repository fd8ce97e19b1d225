"""Does this harness see what it is there to see? Asked with candidates that are known to be worse."""

from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING

from harness.commands.base import Commands

if TYPE_CHECKING:
    from harness.config.model import Profile
    from harness.controls.control import Control

EMBEDDED = "cpu-forged"


def add(commands: Commands) -> None:
    """Add this command to the parser."""
    text = "run candidates that are known to be worse, and demand that each is caught and named"
    command = commands.add_parser("selftest", help=text)
    command.add_argument(
        "--profile",
        metavar="NAME",
        help=f"profile whose engine is asked; {EMBEDDED} without it, where its engine is installed",
    )
    command.add_argument(
        "--quick", action="store_true", help="on the built-in fake server only: under two minutes on an idle machine"
    )
    command.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="this control only; may be given several times"
    )
    command.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="any value of the profile by its dotted key"
    )
    command.add_argument("--list", action="store_true", help="print the controls, and run none")
    command.set_defaults(command=_selftest)


def _selftest(arguments: argparse.Namespace) -> int:
    from harness.controls.run import new_folder, run_controls  # noqa: PLC0415
    from harness.controls.summary import closing_lines, result_line  # noqa: PLC0415
    from harness.paths import results_root  # noqa: PLC0415

    controls = _chosen(arguments.only)
    if arguments.list:
        for control in controls:
            print(f"{control.name:<22} {control.worse or 'nothing is worse: it must pass'}")
            print("".join(f"    {expected.text()}\n" for expected in control.expects), end="")
        return 0
    profile, given = _profile(arguments)
    folder = new_folder(results_root())
    print(f"{len(controls)} controls, bundles and selftest.json in {folder}", flush=True)
    report = run_controls(
        controls, folder, profile, given=given, tell=lambda result: print(result_line(result), flush=True)
    )
    print("\n".join(closing_lines(report)))
    return report.exit_code


def _chosen(names: list[str]) -> list[Control]:
    from harness.controls.table import CONTROLS  # noqa: PLC0415
    from harness.errors import ConfigError  # noqa: PLC0415

    known = {control.name: control for control in CONTROLS}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"--only {unknown[0]}: no such control; known are {', '.join(known)}")
    return [control for control in CONTROLS if not names or control.name in names]


def _profile(arguments: argparse.Namespace) -> tuple[Profile | None, tuple[str, ...]]:
    """The profile whose engine is asked, None for the built-in server alone; and the options that choose it."""
    from harness.config.load import load_profile  # noqa: PLC0415
    from harness.config.options import from_arguments  # noqa: PLC0415
    from harness.errors import ConfigError  # noqa: PLC0415
    from harness.session.compose import engine_command  # noqa: PLC0415

    if arguments.quick:
        if arguments.profile or arguments.set:
            raise ConfigError("--quick asks no profile's engine; leave out --profile and --set")
        return None, ()
    name = arguments.profile or EMBEDDED
    profile = load_profile(name, smoke=True, overrides=from_arguments({}, arguments.set)).model
    if not arguments.profile and shutil.which(engine := engine_command(profile)[0]) is None:
        print(f"{engine} is not installed (`make setup`), so all are shown by the built-in fake server")
        return None, ()
    return profile, ("--profile", name, *(part for setting in arguments.set for part in ("--set", setting)))
