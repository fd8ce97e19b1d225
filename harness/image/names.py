"""Tag and labels of an image: what it was made from, so that anybody can read it back from the image."""

from __future__ import annotations

from harness.config.components import untagged
from harness.stack.record import StackLock

PREFIX = "qualify.image."
"""Not the prefix of containers' labels: containers inherit those of their image."""
LOCK = f"{PREFIX}lock-sha256"
CONTEXT = f"{PREFIX}context-sha256"
BASE_ID = f"{PREFIX}base-image-id"
BASE_NAME = "org.opencontainers.image.base.name"
BASE_DIGEST = "org.opencontainers.image.base.digest"


def tag_of(lock: StackLock, context_sha256: str) -> str:
    """Name of the image: another lock, Dockerfile, program or build command gives another one."""
    return f"qualify/{lock.stack.rstrip('-')}:{lock.sha256[:16]}-{context_sha256[:16]}"


def labels_of(lock: StackLock, *, context_sha256: str, base_image_id: str) -> dict[str, str]:
    """Labels that the image gets beside those of its base."""
    labels = {
        BASE_NAME: untagged(lock.base.reference),
        BASE_DIGEST: lock.base.digest,
        BASE_ID: base_image_id,
        LOCK: lock.sha256,
        CONTEXT: context_sha256,
        f"{PREFIX}stack": lock.stack,
        f"{PREFIX}build-mode": lock.build_mode,
    }
    if lock.without:
        labels[f"{PREFIX}without"] = " ".join(lock.without)
    for component in lock.components:
        begin = f"{PREFIX}{component.name}."
        labels[f"{begin}tree"] = component.tree
        labels[f"{begin}patch-sha256"] = component.patch_sha256
        labels[f"{begin}heads"] = " ".join(f"{head.pr}:{head.head}" for head in component.heads if head.head)
    return labels
