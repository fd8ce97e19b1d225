"""A lock in lines for people: what each head became, and what of it the image will hold."""

from __future__ import annotations

from collections.abc import Iterator

from harness.stack.changes import SYMLINK
from harness.stack.lock import Outcome
from harness.stack.record import LOCK_FILE, LockedComponent, LockedHead


def outcome_lines(outcome: Outcome, *, mirrored: bool = False) -> Iterator[str]:
    """What `qualify lock` prints."""
    lock = outcome.lock
    yield f"{lock.stack} on {lock.base.reference}{f' ({lock.base.release})' if lock.base.release else ''}"
    for component in lock.components:
        yield from _component_lines(component)
    if mirrored:
        yield "heads are as the mirror has them: fetch it again to know that they have not moved since"
    yield f"{outcome.folder / LOCK_FILE}: {outcome.state}, lock sha256 {lock.sha256}"


def _component_lines(component: LockedComponent) -> Iterator[str]:
    patched = " + integration patch" if component.integration else ""
    yield f"{component.name}: {component.base_commit[:12]}{patched} = tree {component.tree_before[:12]}"
    for head in component.heads:
        yield f"  #{head.pr:<6} {head.disposition:16} {_head_text(head)}".rstrip()
    for patch in component.patches:
        yield f"  patch   applied          {patch.file}"
    installed, others = component.installed, component.not_installed
    yield (
        f"  tree {component.tree[:12]}: {len(installed)} installed files change, in {len(component.install)} "
        f"{'copy' if len(component.install) == 1 else 'copies'} each; {len(others)} others are for the source checks"
    )
    for file in component.files:
        if file.mode_after == SYMLINK:
            yield f"  note: {file.path} is a symbolic link"


def _head_text(head: LockedHead) -> str:
    parts = [head.head or head.expected]
    if head.moved:
        parts.append(f"moved: the stack expects {head.expected}, --update accepted it")
    elif head.head and len(head.expected) < len(head.head):
        parts.append(f"completed from {head.expected}")
    if head.note:
        parts.append(head.note)
    return f"{parts[0]} {'; '.join(parts[1:])}".rstrip()
