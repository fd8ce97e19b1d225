"""What this host remembers: its index of sessions, its anchors, its nights."""

from __future__ import annotations

import argparse

from harness.commands.base import Commands


def add(commands: Commands) -> None:
    """Add these commands to the parser."""
    history = commands.add_parser("history", help="the index of sessions: noise per host, false alarms, anchors")
    below = history.add_subparsers(title="commands", required=True, metavar="COMMAND")

    imports = below.add_parser("import", help="take bundles into the index; those that it has are left alone")
    imports.add_argument("places", metavar="RESULTS", nargs="*", help="bundles, or folders of bundles (results/)")
    imports.set_defaults(command=_import)

    lists = below.add_parser("list", help="hosts and their right to judge speed, anchors, sessions")
    lists.add_argument("--profile", metavar="NAME", help="only sessions of this profile")
    lists.set_defaults(command=_list)

    show = below.add_parser("show", help="everything that is kept of one session")
    show.add_argument("session", metavar="SESSION", help="its name, or the beginning of its root hash")
    show.set_defaults(command=_show)

    accept = below.add_parser("accept", help="make a session's candidate the anchor that nights are measured against")
    accept.add_argument("session", metavar="SESSION", help="name of a session in results/, or its folder")
    accept.add_argument("--reason", metavar="TEXT", required=True, help="why this build")
    accept.add_argument("--by", metavar="NAME", help="who accepts it (the user's name)")
    accept.set_defaults(command=_accept)

    prune = below.add_parser("prune", help="say which bundles nothing refers to; --yes deletes them")
    prune.add_argument("--keep", metavar="N", type=int, default=50, help="newest sessions per profile that stay (50)")
    prune.add_argument("--yes", action="store_true", help="delete them, and say each one's root hash")
    prune.set_defaults(command=_prune)

    nightly = commands.add_parser(
        "nightly", help="today's stack against the last accepted anchor, and since when it moved"
    )
    _add_nightly_arguments(nightly)
    nightly.set_defaults(command=_nightly)


def _add_nightly_arguments(parser: argparse.ArgumentParser) -> None:
    from harness.commands.session import add_session_arguments  # noqa: PLC0415

    add_session_arguments(parser)
    parser.add_argument("--night", metavar="YYYY-MM-DD", help="the night that is run, or caught up with (today)")
    parser.add_argument("--again", action="store_true", help="run it though this night has a finished session")
    parser.add_argument(
        "--summary", metavar="FILE", action="append", default=[], help="write a summary; JSON for *.json"
    )
    parser.add_argument("--hook", metavar="COMMAND", action="append", default=[], help="gets the summary on its stdin")


def _import(arguments: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415

    from harness.history.importing import import_bundles, opened  # noqa: PLC0415
    from harness.paths import results_root  # noqa: PLC0415

    places = [Path(p) for p in arguments.places] or [results_root()]
    notes: list[str] = []
    with opened(notes) as index:
        print(*notes, *import_bundles(index, places), sep="\n")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from harness.history.anchors import read_anchors  # noqa: PLC0415
    from harness.history.importing import opened  # noqa: PLC0415
    from harness.history.show import list_lines  # noqa: PLC0415

    notes: list[str] = []
    with opened(notes) as index:
        print(*notes, *list_lines(index, read_anchors(), arguments.profile), sep="\n")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from harness.history.importing import opened  # noqa: PLC0415
    from harness.history.show import show_lines  # noqa: PLC0415

    with opened() as index:
        print(*show_lines(index, arguments.session), sep="\n")
    return 0


def _accept(arguments: argparse.Namespace) -> int:
    import getpass  # noqa: PLC0415
    from datetime import UTC, datetime  # noqa: PLC0415

    from harness.history.anchors import accept  # noqa: PLC0415
    from harness.paths import results_root  # noqa: PLC0415
    from harness.workflow import bundle_at  # noqa: PLC0415

    named = results_root() / arguments.session
    bundle = bundle_at(str(named) if (named / "plan.json").is_file() else arguments.session)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    anchor = accept(bundle, reason=arguments.reason, who=arguments.by or getpass.getuser(), when=when)
    print(f"anchor {anchor.number} of {anchor.profile}: {anchor.stack} of {anchor.session} ({anchor.verdict})")
    return 0


def _prune(arguments: argparse.Namespace) -> int:
    from harness.errors import ConfigError  # noqa: PLC0415
    from harness.history.anchors import read_anchors  # noqa: PLC0415
    from harness.history.importing import opened  # noqa: PLC0415
    from harness.history.retention import decide, delete  # noqa: PLC0415
    from harness.paths import results_root  # noqa: PLC0415

    if arguments.keep < 1:
        raise ConfigError("--keep must be at least 1: the newest session of a profile always stays")
    with opened() as index:
        decided = decide(index, results_root(), read_anchors(), keep=arguments.keep)
        for decision in decided:
            print(f"{'keep  ' if decision.keep else 'delete'}  {decision.root.name}: {decision.why}")
        doomed = sum(not d.keep for d in decided)
        if not arguments.yes:
            print(f"{doomed} of {len(decided)} would be deleted; --yes does it")
        else:
            for line in delete(index, decided):
                print(line)
    return 0


def _nightly(arguments: argparse.Namespace) -> int:
    from harness.nightly.run import run_night  # noqa: PLC0415

    return run_night(arguments)
