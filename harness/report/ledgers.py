"""The JIT ledger for people: late kernels per arm, each source by itself, and what each launch could see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.judge.case import Case
from harness.observe.jit.ledger import Ledger, LedgerLine
from harness.records import PlannedLaunch
from harness.report.launches import in_order
from harness.report.text import public
from harness.words import Arm

LINES = 300
"""Lines of one arm that a page shows; report/jit.json holds them all."""


@dataclass(frozen=True)
class LateLine:
    """One late kernel of one arm and mode, over the launches in which a source saw it."""

    mode: str
    line: LedgerLine
    launches: tuple[str, ...]


@dataclass(frozen=True)
class ArmLedger:
    """Late lines of one arm."""

    arm: Arm
    lines: tuple[LateLine, ...]
    left_out: int


@dataclass(frozen=True)
class LaunchLedger:
    """What one launch could see, and what its first prompts cost."""

    planned: PlannedLaunch
    ledger: Ledger


def arm_ledgers(case: Case) -> list[ArmLedger]:
    """Both arms; an arm without a late line too, since that is what a reader looks for."""
    return [_arm(case, arm) for arm in Arm]


def launch_ledgers(case: Case) -> list[LaunchLedger]:
    """Every launch that began, in run order."""
    return [LaunchLedger(x, case.ledgers[x.id]) for x in in_order(case) if x.id in case.ledgers]


def public_tree(case: Case) -> dict[str, Any]:
    """Every ledger as JSON, with the texts of strangers as public as in the reports."""
    found: dict[str, Any] = _public({i: x.model_dump(mode="json") for i, x in case.ledgers.items()})
    return found


def _public(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _public(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_public(v) for v in value]
    return public(value) if isinstance(value, str) else value


def _arm(case: Case, arm: Arm) -> ArmLedger:
    groups: dict[tuple[object, ...], list[tuple[PlannedLaunch, LedgerLine]]] = {}
    for planned in in_order(case):
        if planned.arm is arm and planned.id in case.ledgers:
            for line in case.ledgers[planned.id].lines:
                if line.late:
                    key = (planned.mode, line.source, line.what, line.kernel, line.specialisation, line.phase)
                    groups.setdefault(key, []).append((planned, line))
    lines = [LateLine(g[0][0].mode, g[0][1], tuple(dict.fromkeys(p.id for p, _ in g))) for g in groups.values()]
    return ArmLedger(arm, tuple(lines[:LINES]), max(0, len(lines) - LINES))
