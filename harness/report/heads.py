"""Exact heads of both arms: what was under test, in full, before what both arms share."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judge.case import Case
from harness.report.escape import code, inline
from harness.report.launches import model_text, stack_differences
from harness.report.text import plural
from harness.stack.record import LockedHead
from harness.words import Arm

HEADS = 12
"""Heads of one arm that are not folded."""


def main_heads(case: Case) -> str:
    """Per arm its heads that the other arm does not have; where there is no lock, what is known instead."""
    return "".join(["**Exact heads**\n\n", *(line for arm in Arm for line in _arm(case, arm)), "\n"])


def _arm(case: Case, arm: Arm) -> Iterator[str]:
    lock, record = case.stack_locks.get(arm), case.locks[arm]
    changed = ", ".join(stack_differences(case, arm)) or "the profile as it is"
    facts = f"vLLM {record.engine_version}, {model_text(record)}; {changed}"
    yield f"- {arm}: stack {inline(record.stack, 80)}, {inline(facts, 400)}\n"
    if lock is None:
        return
    yield f"  - lock {code(lock.sha256)}, base {code(lock.base.reference)}\n"
    other = case.stack_locks.get(Arm.CONTROL if arm is Arm.CANDIDATE else Arm.CANDIDATE)
    shared = {(c.name, h.pr, h.head) for c in (other.components if other else ()) for h in c.heads}
    own = [(c.name, h) for c in lock.components for h in c.heads if (c.name, h.pr, h.head) not in shared]
    yield from (f"  - {code(head_text(name, head))}\n" for name, head in own[:HEADS])
    both = sum(len(c.heads) for c in lock.components) - len(own)
    folded = both + max(0, len(own) - HEADS)
    if folded:
        yield f"  - {plural(folded, 'more head')}{', in both arms' if folded == both else ''}, folded below\n"


def head_text(component: str, head: LockedHead) -> str:
    """`vllm#258 63b7... merged`; never a shortened head."""
    moved = f", moved from {head.expected}" if head.moved else ""
    return f"{component}#{head.pr} {head.head or head.expected} {head.disposition}{moved}"
