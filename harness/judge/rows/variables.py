"""Variables that a stack sets and its engine does not know: whoever sets one that nothing reads tests nothing."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case
from harness.observe.log import Kind
from harness.records import Row
from harness.words import Arm, Word

NAME = "variables of the stacks"
PREFIX = "VLLM_"
"""The engine looks at no others."""


def rows(case: Case) -> Iterator[Row]:
    """One row for the session, where a stack sets such a variable."""
    if any(_names(case, arm) for arm in Arm):
        yield _row(case)


def _row(case: Case) -> Row:
    said = {arm: _said(case, arm) for arm in Arm}
    unknown = {arm: {n: place for n, place in said[arm].items() if n in _names(case, arm)} for arm in Arm}
    names = sorted(set().union(*unknown.values()))
    if names:
        told = f"the engine does not list {', '.join(names)}: unless a plugin reads it, it changes nothing"
        word, reason = Word.NOTE, told
        if _nothing_else(case, unknown):
            word, reason = Word.WARN, f"{told}; nothing else tells the arms apart"
    elif not all(said.values()):
        # The harness itself sets some that stock engines do not list.
        word, reason = Word.NOT_TESTED, "an arm's engine names no variable that it does not list, so it may not look"
    else:
        word, reason = Word.PASS, "the engine lists every variable that a stack sets"
    return Row(
        name=NAME,
        control=", ".join(sorted(unknown[Arm.CONTROL])) or None,
        candidate=", ".join(sorted(unknown[Arm.CANDIDATE])) or None,
        word=word,
        reason=reason,
        sources=tuple(place for arm in Arm for place in unknown[arm].values()) or ("plan.json",),
    )


def _names(case: Case, arm: Arm) -> set[str]:
    return {name for name in case.plan.stack(arm).serve.env if name.startswith(PREFIX)}


def _said(case: Case, arm: Arm) -> dict[str, str]:
    """Variables that some launch of an arm says it does not know, and where it says so first."""
    found: dict[str, str] = {}
    for launch in (case.launches[planned.id] for planned in case.plan.launches if planned.arm is arm):
        for event in launch.of_kind(Kind.UNKNOWN_VARIABLE):
            found.setdefault(str(event.values["variable"]), launch.place(event))
    return found


def _nothing_else(case: Case, unknown: dict[Arm, dict[str, str]]) -> bool:
    """True where the stacks differ, and only in variables that the engine does not list."""
    stacks = [case.plan.stack(arm) for arm in Arm]
    bare = [s.model_copy(update={"name": "", "description": "", "claims": (), "extends": ""}) for s in stacks]
    known = [
        s.model_copy(update={"serve": s.serve.model_copy(update={"env": _without(s.serve.env, unknown[arm])})})
        for s, arm in zip(bare, Arm, strict=True)
    ]
    return bare[0] != bare[1] and known[0] == known[1]


def _without(env: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in names}
