"""Sessions: look at the machine, plan, run, clean up."""

from __future__ import annotations

import argparse

from harness.commands.base import Commands


def add(commands: Commands) -> None:
    """Add these commands to the parser."""
    doctor = commands.add_parser("doctor", help="look at this machine and say what it can run")
    doctor.add_argument("--profile", metavar="NAME", help="profile to look for; the one of this machine without it")
    doctor.set_defaults(command=_doctor)

    plan = commands.add_parser("plan", help="print what a session would do, and start nothing")
    add_session_arguments(plan)
    plan.add_argument("-v", "--verbose", action="store_true", help="every value with where it came from")
    plan.set_defaults(command=_plan)

    run = commands.add_parser("run", help="run a session: launches, suites, verdict, report")
    add_session_arguments(run)
    run.add_argument("-k", metavar="EXPR", default="", help="only checks that match, as in pytest")
    run.add_argument("-m", metavar="MARKS", default="", help="only checks with these marks, as in pytest")
    run.add_argument("--no-history", action="store_true", help="neither use what this host remembers nor add to it")
    run.set_defaults(command=_run)

    clean = commands.add_parser("clean", help="end what a killed harness left running; --models, --caches for files")
    clean.add_argument("--models", action="store_true", help="also remove forged models")
    clean.add_argument("--caches", action="store_true", help="also remove compile caches of sessions that are over")
    clean.set_defaults(command=_clean)


def add_session_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that say what is run, and how; each session takes them."""
    from harness.config.options import SETTINGS  # noqa: PLC0415

    parser.add_argument("--profile", metavar="NAME", help="profile or path of one; chosen for this machine without it")
    parser.add_argument("--control", metavar="STACK", help="stack of the control; the profile as it is without it")
    parser.add_argument("--candidate", metavar="STACK", help="stack of the candidate, likewise")
    for arm in ("control", "candidate"):
        parser.add_argument(
            f"--{arm}-lock", metavar="DIR", help=f"lock of the {arm}'s stack, e.g. one with a head left out"
        )
    parser.add_argument("--smoke", action="store_true", help="the smallest honest subset of the profile")
    for setting in SETTINGS:
        parser.add_argument(setting.option, help=f"{setting.help} (also {setting.variable})", metavar="VALUE")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="any value of the profile by its dotted key"
    )


def _doctor(arguments: argparse.Namespace) -> int:
    from harness.doctor import examine  # noqa: PLC0415

    findings = examine(arguments.profile)
    for finding in findings:
        print(f"{finding.state:4}  {finding.subject:22} {finding.text}")
    return 0 if all(f.state != "FAIL" for f in findings) else 3


def _plan(arguments: argparse.Namespace) -> int:
    from harness.session.selection import select  # noqa: PLC0415
    from harness.session.show import plan_lines  # noqa: PLC0415

    selection = select(arguments)
    for line in plan_lines(selection, verbose=arguments.verbose):
        print(line)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from harness.session.selection import select  # noqa: PLC0415
    from harness.session.terminal import run_session  # noqa: PLC0415

    return run_session(select(arguments), keyword=arguments.k, marks=arguments.m, history=not arguments.no_history)


def _clean(arguments: argparse.Namespace) -> int:
    from harness.session.cleaning import clean  # noqa: PLC0415
    from harness.workflow import seal_abandoned  # noqa: PLC0415

    done = clean(models=arguments.models, caches=arguments.caches) + seal_abandoned()
    for line in done or ["nothing was left behind"]:
        print(line)
    return 0
