"""What each arm's image is: base, heads, trees and hashes, in full, so that nobody types them by hand."""

from __future__ import annotations

from harness.judge.case import Case
from harness.report.text import plural
from harness.stack.reading import differences
from harness.stack.record import LockedComponent, LockedHead
from harness.words import Arm


def image_lines(case: Case, arm: Arm) -> list[str]:
    """The identities of an arm's image; none for a process of the host."""
    image = case.locks[arm].image
    if image is None:
        return []
    lines = [f"image id {image.image_id}", f"base {image.base_reference}"]
    if image.lock_sha256 is not None:
        lock = case.stack_locks.get(arm)
        release = f" ({lock.base.release})" if lock is not None and lock.base.release else ""
        lines[1] += release
        lines.append(f"lock sha256 {image.lock_sha256}")
    if image.builder is not None:
        how = "built before, and found as its lock says" if image.reused else f"built by the {image.builder} builder"
        log = f", log sha256 {image.build_log_sha256}" if image.build_log_sha256 else ""
        lines.append(f"{how}{log}")
    return lines


def head_lines(case: Case, arm: Arm) -> list[str]:
    """Per component its base and trees, then every pull request in the order in which it was put on."""
    lock = case.stack_locks.get(arm)
    if lock is None:
        return []
    return [line for component in lock.components for line in (_component(component), *map(_head, component.heads))]


def head_names(case: Case, arm: Arm) -> list[str]:
    """`vllm #258 63b77c803149`: every pull request that is in an arm's image, short; never typed by hand."""
    lock = case.stack_locks.get(arm)
    heads = [(c.name, h) for c in lock.components for h in c.heads] if lock else []
    return [f"{name} #{h.pr} {(h.head or h.expected)[:12]} {h.disposition}" for name, h in heads]


def lock_differences(case: Case) -> list[str]:
    """How the candidate's lock differs from the control's; none where an arm has no lock."""
    control, candidate = (case.stack_locks.get(arm) for arm in Arm)
    if control is None or candidate is None or control.sha256 == candidate.sha256:
        return []
    lines = differences(control, candidate, ("in the control", "in the candidate"))
    return [line for line in lines if not line.startswith("stack: ")]  # the names stand at the top


def _component(component: LockedComponent) -> str:
    integration = f" + integration patch sha256 {component.integration.sha256}" if component.integration else ""
    copies = len(component.install)
    return (
        f"{component.name}: base {component.base_commit}{integration} = tree {component.tree_before}; "
        f"with its heads tree {component.tree}, patch sha256 {component.patch_sha256}, "
        f"{plural(len(component.installed), 'installed file')} in {plural(copies, 'copy', 'copies')} each"
    )


def _head(head: LockedHead) -> str:
    title = f" {head.title}" if head.title else ""
    note = f" ({head.note})" if head.note else ""
    moved = f", moved from {head.expected}" if head.moved else ""
    return f"#{head.pr}{title}: {head.head or head.expected} {head.disposition}{moved}{note}"
