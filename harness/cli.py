"""The command line. Everything heavy is imported by the command that needs it: --help stays instant."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from harness import __version__
from harness.commands import evidence, history, keys, publish, selftest, session, stacks, tools
from harness.commands.base import Command


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `qualify`; every error of ours ends here, as one line and an exit code."""
    from harness.errors import QualifyError  # noqa: PLC0415
    from harness.words import ExitCode  # noqa: PLC0415

    arguments = _parser().parse_args(argv)
    command: Command = arguments.command
    try:
        return command(arguments)
    except QualifyError as e:
        print(f"qualify: {e}", file=sys.stderr)
        return e.exit_code
    except KeyboardInterrupt:
        print("qualify: interrupted", file=sys.stderr)
        return ExitCode.VOID
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PASS
    except Exception:  # noqa: BLE001  # a fault of ours must never look like exit code 1, which means "the candidate failed"
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        told = "qualify: internal error (above); what was written is kept, and `qualify judge` reads it again"
        print(told, file=sys.stderr)
        return ExitCode.VOID


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qualify",
        description="Qualify a vLLM fork or kernel patch: launch control and candidate, observe, judge, report.",
        epilog="Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 setup failure, 4 void, 5 does not verify, "
        "10 inconclusive.",
    )
    parser.add_argument("--version", action="version", version=f"qualify {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    for group in (session, evidence, history, keys, publish, stacks, tools, selftest):
        group.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
