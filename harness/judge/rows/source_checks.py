"""Commands over both arms' source: only what the control does not have is held against the candidate."""

from __future__ import annotations

from collections.abc import Iterator

from harness.checks.compare import Comparison
from harness.checks.evidence import Checked, read_checked
from harness.checks.finding import Result, State
from harness.config.model import planned_checks
from harness.judge.case import Case
from harness.records import Row
from harness.words import Arm, Word

SHOWN = 5
"""Entries of a list that a reason names; the evidence has them all."""
WIDTH = 300


def rows(case: Case) -> Iterator[Row]:
    """Per planned check its judgement, then what it fixes and what is no longer run; none where none was planned."""
    plan = case.plan
    for check in planned_checks(plan.profile, plan.control, plan.candidate):
        yield from _rows(read_checked(case.bundle, check))


def _rows(checked: Checked) -> Iterator[Row]:
    if checked.broken:
        yield _row(checked, Word.VOID, checked.broken)
        return
    if checked.not_run:
        yield _row(checked, Word.NOT_TESTED, checked.not_run)
        yield from _vanished(checked, checked.gone)
        return
    found = checked.comparison
    if found.environment:
        yield _row(checked, Word.SETUP_FAILURE, f"could not be compared: {_listed(found.environment)}")
    if found.new:
        yield _row(checked, Word.FAIL, f"{len(found.new)} new: {_listed(found.new)}")
    elif not found.environment or found.passed or found.pre_existing or found.fixed:
        yield _row(checked, Word.PASS, _nothing_new(found))
    if found.fixed:
        fixed = f"{len(found.fixed)} fail on the control and pass on the candidate: {_listed(found.fixed)}"
        yield _row(checked, Word.NOTE, fixed)
    yield from _vanished(checked, found.vanished)


def _vanished(checked: Checked, entries: tuple[str, ...]) -> Iterator[Row]:
    if entries:
        yield _row(checked, Word.WARN, f"{len(entries)} no longer run: {_listed(entries)}")


def _nothing_new(found: Comparison) -> str:
    parts = ["nothing new"]
    if found.passed:
        parts.append(f"{found.passed} pass in both arms")
    if found.pre_existing:
        parts.append(f"{len(found.pre_existing)} pre-existing: {_listed(found.pre_existing)}")
    return "; ".join(parts)


def _row(checked: Checked, word: Word, reason: str) -> Row:
    texts = {arm: _text(result) for arm, result in checked.results.items()}
    return Row(
        name=f"source check {checked.check.name}",
        control=texts.get(Arm.CONTROL),
        candidate=texts.get(Arm.CANDIDATE),
        word=word,
        reason=reason,
        sources=checked.sources,
    )


def _text(result: Result) -> str:
    """One arm's answer in a few words."""
    if result.fault:
        return "no answer"
    if not result.tests and not result.uncollected:
        count = len(result.findings)
        return "no finding" if not count else f"{count} finding{'s' if count > 1 else ''}"
    states = [node.state for node in result.tests.values()]
    counts = [(states.count(state), str(state)) for state in State]
    counts.append((len(result.uncollected), "not collected"))
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def _listed(entries: tuple[str, ...]) -> str:
    beyond = len(entries) - SHOWN
    return "; ".join(entry[:WIDTH] for entry in entries[:SHOWN]) + (f"; and {beyond} more" if beyond > 0 else "")
