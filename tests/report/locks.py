"""Locks of stacks with pull requests on them, after the origin's own (r31 and the prewarm)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evidence.bundle import Bundle, write_atomically
from harness.stack.record import LOCK_FILE, Disposition, LockedBase, LockedComponent, LockedHead, StackLock
from harness.words import Arm

DIGEST = "sha256:" + "3230c25f" * 8


@dataclass(frozen=True)
class Pull:
    """A pull request in a lock."""

    number: int
    head: str
    title: str = ""
    component: str = "vllm"


OTHERS = (
    Pull(258, "63b77c8031e0" + "1" * 28, "spec decode: keep draft logits"),
    Pull(130, "9ead9eaa188c" + "2" * 28, "mg prefill", "b12x"),
)
PREWARM = Pull(271, "310c3ac9718f" + "3" * 28, "fix(b12x): prewarm full-CKV prefill kernels before KV sizing")


def stack_lock(stack: str, pulls: Sequence[Pull]) -> StackLock:
    """A lock of two components with these heads on them."""
    components = tuple(
        LockedComponent(
            name=name,
            repository=f"https://github.com/local-inference-lab/{name}.git",
            base_commit="e2666d9a65f4" + "0" * 28,
            base_tree="a" * 40,
            integration=None,
            tree_before="a" * 40,
            heads=tuple(_head(p) for p in pulls if p.component == name),
            patches=(),
            tree="fa13d334a296" + "0" * 28,
            packages=(name,),
            install=(f"/opt/{name}",),
            patch_sha256="c" * 64,
            composed_sha256="d" * 64,
            files=(),
        )
        for name in ("vllm", "b12x")
    )
    return StackLock(
        stack=stack,
        without=(),
        base=LockedBase(reference=f"registry.example/vllm@{DIGEST}", digest=DIGEST, release="gilded-gnosis-v20-r31"),
        build_mode="overlay",
        components=components,
        claims=(),
        inputs_sha256="6" * 64,
    ).sealed()


def write_locks(
    bundle: Bundle, candidate: Sequence[Pull] = (*OTHERS, PREWARM), control: Sequence[Pull] = OTHERS
) -> None:
    """As a session leaves them."""
    for arm, pulls in ((Arm.CONTROL, control), (Arm.CANDIDATE, candidate)):
        lock = stack_lock({Arm.CONTROL: "r31", Arm.CANDIDATE: "prewarm"}[arm], pulls)
        write_atomically(bundle.stack_lock_dir(arm) / LOCK_FILE, lock.to_bytes())


def _head(pull: Pull) -> LockedHead:
    return LockedHead(
        pr=pull.number,
        ref=f"refs/pull/{pull.number}/head",
        title=pull.title,
        strategy="merge",
        expected=pull.head[:12],
        head=pull.head,
        moved=False,
        disposition=Disposition.MERGED,
        replaces=None,
        note="",
        tree="e" * 40,
    )
