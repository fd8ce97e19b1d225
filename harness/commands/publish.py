"""Evidence on a pull request: publish, and look whether it is still about the head."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from harness.commands.base import Commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.evidence.mismatch import Mismatch
    from harness.judge.case import Case
    from harness.publish.github import GitHub
    from harness.publish.publish import Done, Options
    from harness.records import Verdict


VERIFY_MIB = 4096
"""Memory that one's own bundle may take while it is verified: no stranger made it."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    publish = commands.add_parser(
        "publish", help="put a session's evidence on a pull request; a dry run without --send"
    )
    publish.add_argument("bundle", nargs="?", help="folder of a session; the newest one without it")
    publish.add_argument("--repo", required=True, metavar="OWNER/NAME", help="repository of the pull request")
    publish.add_argument("--pr", required=True, type=int, metavar="N", help="number of the pull request")
    publish.add_argument("--send", action="store_true", help="send it; without this it prints what would be sent")
    publish.add_argument("--check", action="store_true", help="only mark the published comment stale if the head moved")
    publish.add_argument("--evidence-url", metavar="URL", help="where the bundle can be had")
    publish.add_argument("--no-status", action="store_true", help="leave the commit's status alone")
    publish.add_argument(
        "--allow-dirty", action="store_true", help="publish evidence of an uncommitted harness, marked"
    )
    publish.add_argument("--login", help="account whose comments are ours, where the token cannot say: an app's")
    publish.add_argument("--token-file", metavar="FILE", help="else QUALIFY_GITHUB_TOKEN or GITHUB_TOKEN")
    publish.add_argument("--api-url", default="https://api.github.com", metavar="URL", help="https://api.github.com")
    publish.add_argument("--max-wait", type=float, default=300, metavar="S", help="seconds of waiting in all; 300")
    publish.set_defaults(command=_publish)


def _publish(arguments: argparse.Namespace) -> int:
    from datetime import UTC, datetime  # noqa: PLC0415

    from harness.history.published import note_published  # noqa: PLC0415
    from harness.publish.evidence import publication  # noqa: PLC0415
    from harness.publish.publish import check, publish  # noqa: PLC0415
    from harness.words import ExitCode  # noqa: PLC0415
    from harness.workflow import bundle_at  # noqa: PLC0415

    bundle, options = bundle_at(arguments.bundle), _options(arguments)
    if arguments.check:
        done = check(_github(arguments), bundle.plan().profile.name, options)
        _print(done, sent=options.send)
        return ExitCode.INCONCLUSIVE if done.stale else ExitCode.PASS
    what = publication(
        bundle,
        options.target,
        options.evidence_url,
        allow_dirty=arguments.allow_dirty,
        check=mismatches,
    )
    _print(publish(_github(arguments), what, options), sent=options.send)
    if options.send:
        note_published(what.entry.root, str(options.target), datetime.now(UTC).isoformat(timespec="seconds"))
    return ExitCode.PASS


def mismatches(case: Case, _: Verdict) -> Sequence[Mismatch]:
    """All that `qualify verify` would name: what does not verify is not published."""
    from harness.verification.verify import verify  # noqa: PLC0415

    return verify(str(case.bundle.root), memory_mib=VERIFY_MIB).mismatches


def _options(arguments: argparse.Namespace) -> Options:
    import re  # noqa: PLC0415

    from harness.errors import ConfigError  # noqa: PLC0415
    from harness.publish.evidence import Target  # noqa: PLC0415
    from harness.publish.publish import Options  # noqa: PLC0415
    from harness.report.markdown import LINK  # noqa: PLC0415

    if not re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", arguments.repo) or arguments.repo.endswith(("/.", "/..")):
        raise ConfigError(f"--repo {arguments.repo}: write OWNER/NAME, as in the repository's address")
    if arguments.pr < 1:
        raise ConfigError(f"--pr {arguments.pr}: no number of a pull request")
    if arguments.evidence_url is not None and not LINK.fullmatch(arguments.evidence_url):
        raise ConfigError("--evidence-url is no address: it begins with https:// and has no space or bracket in it")
    return Options(
        target=Target(arguments.repo, arguments.pr),
        send=arguments.send,
        evidence_url=arguments.evidence_url,
        with_status=not arguments.no_status,
        login=arguments.login,
    )


def _github(arguments: argparse.Namespace) -> GitHub:
    import os  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from harness.publish.github import GitHub  # noqa: PLC0415
    from harness.publish.token import find_token  # noqa: PLC0415
    from harness.publish.waiting import Patience  # noqa: PLC0415

    file = Path(arguments.token_file) if arguments.token_file else None
    return GitHub(arguments.api_url, find_token(file, os.environ), Patience(arguments.max_wait))


def _print(done: Done, *, sent: bool) -> None:
    for call in () if sent else done.calls:
        print(f"{call.method} {call.url}")
        body = call.payload.get("body")
        if body is None:
            print(json.dumps(call.payload, ensure_ascii=False, indent=1))
        else:
            print(f"JSON of one field, `body`, {len(body):,} characters:\n{body}")
    for note in done.notes:
        print(note)
    if not sent and done.calls:
        print("dry run: nothing was sent; --send sends it")
