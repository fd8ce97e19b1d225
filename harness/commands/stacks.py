"""From a stack to an image: lock, build, prove, keep."""

from __future__ import annotations

import argparse

from harness.commands.base import Commands


def add(commands: Commands) -> None:
    """Add these commands to the parser."""
    lock = commands.add_parser("lock", help="resolve a stack's pull requests, compose them onto its base, pin both")
    _add_lock_arguments(lock)
    lock.set_defaults(command=_lock)

    build = commands.add_parser("build", help="build the image of a lock: the base with its files laid over it")
    _add_build_arguments(build)
    build.set_defaults(command=_build)

    image = commands.add_parser("image", help="prove what an image or container is; keep an image, and load it again")
    _add_image_commands(image)


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
