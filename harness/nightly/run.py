"""`qualify nightly`: one session per night and host, its summary, and what is kept of the nights before."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import TextIO

from harness.config.model import Profile
from harness.errors import ConfigError, QualifyError
from harness.evidence.origin import host_facts
from harness.history.anchors import read_anchors
from harness.history.freezing import freeze
from harness.history.importing import opened
from harness.history.retention import decide, delete
from harness.nightly.choosing import check_anchor, choose, finished
from harness.nightly.holding import one_night
from harness.nightly.hook import hand_over
from harness.nightly.summary import Summary, failed, summarise, text_of
from harness.paths import results_root
from harness.records import HostFacts, Lock, Plan
from harness.session.host import gpus
from harness.session.terminal import run_to_verdict
from harness.words import Arm
from harness.workflow import remember

Say = Callable[[str], None]


def run_night(arguments: argparse.Namespace, out: TextIO | None = None) -> int:
    """Run a night, or do nothing where it has a finished session already; the exit code is the session's.

    Raises:
        ConfigError: a name, date or value cannot be used.
        SetupFailure: another night runs, or this one cannot begin; the hooks are told of the latter.
    """
    stream = out or sys.stdout

    def say(line: str) -> None:
        print(line, file=stream, flush=True)

    night = _date(arguments.night)
    with one_night():
        try:
            return _run(arguments, night, say, stream)
        except QualifyError as e:
            _tell(failed(night, arguments.profile, e), arguments, say)
            raise


def _run(arguments: argparse.Namespace, night: str, say: Say, stream: TextIO) -> int:
    chosen = choose(arguments, night)
    host = host_facts(tuple(f"{g.name}, {g.memory_mib} MiB" for g in gpus()))
    if not arguments.again and (done := finished(results_root(), chosen, host)):
        bundle, verdict = done
        say(f"night {night} has a finished session, {bundle.root.name} ({verdict.verdict}); --again runs another one")
        return int(verdict.exit_code)
    say(f"night {night}: {chosen.told}")

    def freeze_night(plan: Plan, facts: HostFacts, locks: Mapping[Arm, Lock]) -> tuple[Plan, list[str]]:
        check_anchor(chosen.anchor, plan, locks)
        return freeze(plan, facts, locks, night=chosen.night)

    bundle, found = run_to_verdict(chosen.selection, out=stream, freeze=freeze_night)
    for line in remember(bundle, found):
        say(line)
    summary = summarise(bundle, found.verdict, chosen.told)
    say("")
    say(text_of(summary).rstrip())
    _tell(summary, arguments, say)
    for line in _retain(chosen.selection.profile.model):
        say(line)
    return int(found.verdict.exit_code)


def _tell(summary: Summary, arguments: argparse.Namespace, say: Say) -> None:
    for line in hand_over(summary, arguments.summary, arguments.hook):
        say(line)


def _retain(profile: Profile) -> Iterator[str]:
    """What goes of this profile's nights, or would go: nothing is deleted that nobody asked to be."""
    if not profile.nightly.keep:
        return
    with opened() as index:
        decided = decide(index, results_root(), read_anchors(), keep=profile.nightly.keep, nights_of=profile.name)
        if profile.nightly.delete:
            yield from delete(index, decided)
            return
        for decision in decided:
            if not decision.keep:
                yield f"would delete {decision.root.name}: {decision.why} (nightly.delete = true does it)"


def _date(text: str | None) -> str:
    if text is None:
        return datetime.now().astimezone().date().isoformat()
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ConfigError(f"--night {text}: write a date as YYYY-MM-DD") from None
