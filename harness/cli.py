"""The command line. Everything heavy is imported by the command that needs it: --help stays instant."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from harness import __version__

Command = Callable[[argparse.Namespace], int]


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
        epilog="Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 setup failure, 4 void, 10 inconclusive.",
    )
    parser.add_argument("--version", action="version", version=f"qualify {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    doctor = commands.add_parser("doctor", help="look at this machine and say what it can run")
    doctor.set_defaults(command=_doctor)

    plan = commands.add_parser("plan", help="print what a session would do, and start nothing")
    _add_session_arguments(plan)
    plan.add_argument("-v", "--verbose", action="store_true", help="every value with where it came from")
    plan.set_defaults(command=_plan)

    run = commands.add_parser("run", help="run a session: launches, suites, verdict, report")
    _add_session_arguments(run)
    run.add_argument("-k", metavar="EXPR", default="", help="only checks that match, as in pytest")
    run.add_argument("-m", metavar="MARKS", default="", help="only checks with these marks, as in pytest")
    run.set_defaults(command=_run)

    for name, function, text in (
        ("judge", _judge, "derive the verdict of a bundle again, from its evidence alone"),
        ("report", _report, "write the report of a bundle again, from its evidence and verdict"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("bundle", nargs="?", help="folder of a session; the newest one without it")
        command.set_defaults(command=function)

    compare = commands.add_parser("compare", help="two sessions of one host and profile: what moved between them")
    for name in ("A", "B"):
        compare.add_argument(name.lower(), metavar=name, help="folder of a session")
    compare.add_argument("--across-hosts", action="store_true", help="show it though the hosts differ, and mark it so")
    compare.set_defaults(command=_compare)

    inspect = commands.add_parser("inspect", help="say what a log of vLLM says, whoever ran the server")
    inspect.add_argument("log", help="a log (.gz too), `-` for standard input, or the folder of a session")
    inspect.add_argument("--format", choices=("table", "json"), default="table", help="table")
    inspect.set_defaults(command=_inspect)

    clean = commands.add_parser("clean", help="end what a killed harness left running; --models, --caches for files")
    clean.add_argument("--models", action="store_true", help="also remove forged models")
    clean.add_argument("--caches", action="store_true", help="also remove compile caches of sessions that are over")
    clean.set_defaults(command=_clean)

    lock = commands.add_parser("lock", help="resolve a stack's pull requests, compose them onto its base, pin both")
    _add_lock_arguments(lock)
    lock.set_defaults(command=_lock)

    build = commands.add_parser("build", help="build the image of a lock: the base with its files laid over it")
    _add_build_arguments(build)
    build.set_defaults(command=_build)

    image = commands.add_parser("image", help="prove what an image or container is; keep an image, and load it again")
    _add_image_commands(image)

    forge = commands.add_parser("forge", help="write a model whose every answer is known")
    _add_forge_arguments(forge)
    forge.set_defaults(command=_forge)

    fake = commands.add_parser("fake-server", help="a vLLM with known answers and faults on demand, for your own tests")
    _add_fake_arguments(fake)
    fake.set_defaults(command=_fake_server)
    return parser


def _add_session_arguments(parser: argparse.ArgumentParser) -> None:
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


def _add_lock_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stack", help="name in stacks/, or path of a stack")
    parser.add_argument(
        "--update", action="store_true", help="accept heads that moved, and replace a lock that says something else"
    )
    parser.add_argument(
        "--without", metavar="PR", action="append", default=[], help="leave this head out, e.g. 270 or vllm#270"
    )
    parser.add_argument(
        "--mirror",
        metavar="DIR",
        action="append",
        default=[],
        help="fetch from local mirrors, not from the network: a folder with NAME.git in it, or COMPONENT=PATH",
    )
    parser.add_argument("--output", metavar="DIR", help="folder to write to (locks/STACK)")


def _add_build_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lock", metavar="STACK", help="stack that was locked, or the folder of a lock")
    parser.add_argument(
        "--without", metavar="PR", action="append", default=[], help="the lock that leaves this head out"
    )
    parser.add_argument(
        "--builder", metavar="NAME", default="auto", help="buildx, classic or auto (also QUALIFY_BUILDER)"
    )
    parser.add_argument("--log", metavar="FILE", help="build log (build.log in the lock's folder)")


def _add_image_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    verify = commands.add_parser("verify", help="hold an image, or a running container, against its lock")
    verify.add_argument("stack", help="name of a stack, path of one, or folder of a lock")
    verify.add_argument("--image", metavar="IMAGE", help="tag or id; found by its label without it")
    verify.add_argument("--container", metavar="ID", help="ask this running container, not one made for it")
    verify.add_argument("--served-model", metavar="NAME", help="model that the container's server must name")
    verify.add_argument(
        "--engine-command", metavar="ARGV", default="", help="engine.command of the profile (the container's, or vllm)"
    )
    verify.set_defaults(command=_image_verify)

    archive = commands.add_parser("archive", help="save an image by its id, with a record of what it is")
    archive.add_argument("image", help="name of a stack, folder of a lock, or an image's tag or id")
    archive.add_argument("--output", metavar="FILE", help="ends in .tar.zst (results/images/ID.tar.zst)")
    archive.set_defaults(command=_image_archive)

    load = commands.add_parser("load", help="check an archive against its record, and load it")
    load.add_argument("file", help="what `qualify image archive` wrote")
    load.set_defaults(command=_image_load)


def _add_forge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", help="folder to write to")
    for option, kind, text in (
        ("--layers", int, "decoder layers; more change speed and memory, never the answer (1)"),
        ("--hidden", int, "hidden size, at least the vocabulary (128)"),
        ("--head-size", int, "64 or 128 for every backend; 16 makes a CPU server die at its first request (64)"),
        ("--kv-heads", int, "key/value heads (1)"),
        ("--intermediate", int, "width of the MLP (128)"),
        ("--vocab", int, "vocabulary size (the hidden size)"),
        ("--max-context", int, "max_position_embeddings (40960)"),
        ("--seed", int, "seed of the successor map, the wrong drafts and the filler (0)"),
        ("--wrong-drafts", float, "share of tokens after which the MTP layer drafts wrongly (0.3)"),
    ):
        parser.add_argument(option, type=kind, metavar="N", help=text, default=argparse.SUPPRESS)
    for option, text in (
        ("--changed-successor", "one token's successor differs from the same model without this"),
        ("--near-tie", "that token's two best successors nearly tie; with --changed-successor the other one wins"),
    ):
        parser.add_argument(option, action="store_true", help=text, default=argparse.SUPPRESS)


def _add_fake_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="DIR", help="folder of a forged model; a small model's rule without it")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at (8000)")
    parser.add_argument("--served-name", metavar="NAME", default="fake", help="name of the model (fake)")
    parser.add_argument("--mtp", action="store_true", help="draft one token per step")
    for option, kind, text in (
        ("--acceptance", float, "share of drafts that are right, without a model folder (0.7)"),
        ("--ttft-s", float, "seconds before every first token (0)"),
        ("--step-s", float, "seconds per decode step (0)"),
        ("--prefill-tok-s", float, "prompt tokens per second (no wait)"),
        ("--tokens-per-event", int, "steps whose tokens share one event (1)"),
    ):
        parser.add_argument(option, type=kind, metavar="N", help=text)
    parser.add_argument("--log-version", metavar="V", help="version whose log is written, 0.8.5 to 0.32.0 (0.32.0)")
    parser.add_argument("--faults", metavar="LIST", help="e.g. 'hang@3,counter-reset=5'; `--faults help` lists them")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG", help="further flags of vLLM, after --")


def _doctor(arguments: argparse.Namespace) -> int:
    del arguments
    from harness.doctor import examine  # noqa: PLC0415

    findings = examine()
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

    return run_session(select(arguments), keyword=arguments.k, marks=arguments.m)


def _judge(arguments: argparse.Namespace) -> int:
    from harness.workflow import bundle_at, judge_and_report  # noqa: PLC0415

    verdict, lines = judge_and_report(bundle_at(arguments.bundle))
    print("\n".join(lines))
    return verdict.exit_code


def _compare(arguments: argparse.Namespace) -> int:
    from harness.judge.case import read_case  # noqa: PLC0415
    from harness.judge.compare import compare_lines  # noqa: PLC0415
    from harness.workflow import bundle_at  # noqa: PLC0415

    one, other = (read_case(bundle_at(place)) for place in (arguments.a, arguments.b))
    print("\n".join(compare_lines(one, other, across_hosts=arguments.across_hosts)))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from harness.report import write_report  # noqa: PLC0415
    from harness.workflow import bundle_at  # noqa: PLC0415

    bundle = bundle_at(arguments.bundle)
    print(write_report(bundle, bundle.verdict()))
    return 0


def _inspect(arguments: argparse.Namespace) -> int:
    from harness.inspection import inspect  # noqa: PLC0415

    for piece in inspect(arguments.log, arguments.format):
        sys.stdout.write(piece)
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    from harness.session.cleaning import clean  # noqa: PLC0415

    for line in clean(models=arguments.models, caches=arguments.caches) or ["nothing was left behind"]:
        print(line)
    return 0


def _lock(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.stack.lock import Request, lock_stack  # noqa: PLC0415
    from harness.stack.show import outcome_lines  # noqa: PLC0415

    outcome = lock_stack(
        Request(
            stack=arguments.stack,
            update=arguments.update,
            without=tuple(arguments.without),
            mirrors=tuple(arguments.mirror),
            output=Path(arguments.output) if arguments.output else None,
        )
    )
    for line in outcome_lines(outcome, mirrored=bool(arguments.mirror)):
        print(line)
    return 0


def _build(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.image.ask import Request, build, built_lines  # noqa: PLC0415

    request = Request(
        name=arguments.lock,
        without=tuple(arguments.without),
        builder=arguments.builder,
        log=Path(arguments.log) if arguments.log else None,
    )
    for line in built_lines(build(request, print)):
        print(line)
    return 0


def _image_verify(arguments: argparse.Namespace) -> int:
    import shlex  # noqa: PLC0415

    from harness.image.commands import verify  # noqa: PLC0415
    from harness.image.show import verification_lines  # noqa: PLC0415

    verification = verify(
        arguments.stack,
        image=arguments.image,
        container=arguments.container,
        served_model=arguments.served_model,
        command=tuple(shlex.split(arguments.engine_command)),
    )
    for line in verification_lines(verification):
        print(line)
    return 3 if verification.mismatches else 0


def _image_archive(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.image.commands import archive  # noqa: PLC0415

    path, record = archive(arguments.image, Path(arguments.output) if arguments.output else None)
    print(f"{path}: image {record.image_id}, {record.size_bytes >> 20} MiB, sha256 {record.sha256}")
    return 0


def _image_load(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.image.commands import load  # noqa: PLC0415

    loaded = load(Path(arguments.file))
    print(f"image {loaded.record.image_id}", *loaded.tagged)
    for tag in loaded.taken:
        print(f"note: {tag} stands for another image here, and was left alone")
    return 0


def _forge(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.forge.checkpoint import forge  # noqa: PLC0415
    from harness.forge.recipe import Recipe  # noqa: PLC0415

    given = {k: v for k, v in vars(arguments).items() if k not in ("command", "directory")}
    directory = forge(Path(arguments.directory), recipe := Recipe(**given))
    print(f"{directory}: {recipe.vocab_size} tokens, long-run acceptance {recipe.rule.long_run_acceptance():.4f}")
    return 0


def _fake_server(arguments: argparse.Namespace) -> int:
    from harness.fakes.command import Options, run  # noqa: PLC0415
    from harness.fakes.faults import describe_kinds  # noqa: PLC0415

    if arguments.faults == "help":
        print(describe_kinds())
        return 0
    return run(Options(**{k: v for k, v in vars(arguments).items() if k != "command"}))


if __name__ == "__main__":
    sys.exit(main())
