"""What was measured, read again: judge, report, verify, compare, and any log of vLLM."""

from __future__ import annotations

import argparse
import sys

from harness.commands.base import Commands


def add(commands: Commands) -> None:
    """Add these commands to the parser."""
    for name, function, text in (
        ("judge", _judge, "derive the verdict of a bundle again, from its evidence alone"),
        ("report", _report, "write the report of a bundle again, from its evidence and verdict"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("bundle", nargs="?", help="folder of a session; the newest one without it")
        command.set_defaults(command=function)

    verify = commands.add_parser("verify", help="check a bundle against itself: hashes, plan, every figure, signature")
    verify.add_argument("bundle", help="folder of a session, or a .tar.zst, .tar.gz or .zip of one")
    verify.add_argument(
        "--trust",
        metavar="KEYFILE",
        action="append",
        default=[],
        help="public key whose signature counts; repeatable",
    )
    verify.add_argument(
        "--memory-mib", metavar="N", type=int, default=256, help="what the evidence may take of memory (default 256)"
    )
    verify.set_defaults(command=_verify)

    compare = commands.add_parser("compare", help="two sessions of one host and profile: what moved between them")
    for name in ("A", "B"):
        compare.add_argument(name.lower(), metavar=name, help="folder of a session")
    compare.add_argument("--across-hosts", action="store_true", help="show it though the hosts differ, and mark it so")
    compare.set_defaults(command=_compare)

    export = commands.add_parser("export", help="make a small bundle to share: compressed, and without private words")
    export.add_argument("bundle", nargs="?", help="folder of a session; the newest one without it")
    export.add_argument("-o", "--output", metavar="FILE", help="what to write (SESSION.export.tar.zst, here)")
    export.add_argument("--format", choices=("tar.zst", "zip", "dir"), default="tar.zst", help="tar.zst")
    export.add_argument(
        "--redact", metavar="WORD", action="append", default=[], help="remove this word too; may be given again"
    )
    export.set_defaults(command=_export)

    inspect = commands.add_parser("inspect", help="say what a log of vLLM says, whoever ran the server")
    inspect.add_argument("log", help="a log (.gz too), `-` for standard input, or the folder of a session")
    inspect.add_argument("--format", choices=("table", "json"), default="table", help="table")
    inspect.set_defaults(command=_inspect)


def _judge(arguments: argparse.Namespace) -> int:
    from harness.workflow import bundle_at, judge_again  # noqa: PLC0415

    verdict, lines = judge_again(bundle_at(arguments.bundle))
    print("\n".join(lines))
    return verdict.exit_code


def _report(arguments: argparse.Namespace) -> int:
    from harness.evidence.statement import standing  # noqa: PLC0415
    from harness.report import write_report  # noqa: PLC0415
    from harness.workflow import bundle_at  # noqa: PLC0415

    bundle = bundle_at(arguments.bundle)
    report = write_report(bundle, bundle.verdict())
    print(f"statements: {standing(bundle)}\n{report}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.evidence.keys import read_public_keys  # noqa: PLC0415
    from harness.verification.layout import layout  # noqa: PLC0415
    from harness.verification.lines import outcome_lines  # noqa: PLC0415
    from harness.verification.verify import verify  # noqa: PLC0415
    from harness.words import ExitCode  # noqa: PLC0415

    trusted = tuple(map(Path, arguments.trust))
    read_public_keys(trusted)  # a file that is no key is the user's mistake, not the bundle's
    outcome = verify(arguments.bundle, trusted=trusted, memory_mib=arguments.memory_mib, layout=layout)
    print("\n".join(outcome_lines(outcome)))
    return ExitCode.PASS if outcome.verifies else ExitCode.NOT_VERIFIED


def _compare(arguments: argparse.Namespace) -> int:
    from harness.judge.case import read_case  # noqa: PLC0415
    from harness.judge.compare import compare_lines  # noqa: PLC0415
    from harness.workflow import bundle_at  # noqa: PLC0415

    one, other = (read_case(bundle_at(place)) for place in (arguments.a, arguments.b))
    print("\n".join(compare_lines(one, other, across_hosts=arguments.across_hosts)))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.exporting import export, export_lines  # noqa: PLC0415
    from harness.workflow import bundle_at  # noqa: PLC0415

    output = Path(arguments.output) if arguments.output else None
    exported = export(bundle_at(arguments.bundle), output, arguments.format, arguments.redact)
    print("\n".join(export_lines(exported)))
    return 0


def _inspect(arguments: argparse.Namespace) -> int:
    from harness.inspection import inspect  # noqa: PLC0415

    for piece in inspect(arguments.log, arguments.format):
        sys.stdout.write(piece)
    return 0
