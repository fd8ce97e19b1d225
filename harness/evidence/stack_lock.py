"""The lock of an arm's stack as a bundle holds it."""

from __future__ import annotations

from harness.errors import BundleError, ConfigError
from harness.evidence.bundle import Bundle
from harness.evidence.originals import is_redacted
from harness.stack.reading import parse_lock
from harness.stack.record import LOCK_FILE, StackLock
from harness.words import Arm


def stack_lock(bundle: Bundle, arm: Arm) -> StackLock | None:
    """What the arm's image was made of; None for an arm without patches.

    Where private words were removed from it, its own hash is that of the original, and is not checked.

    Raises:
        BundleError: it is missing from its folder, newer or edited.
    """
    folder = bundle.stack_lock_dir(arm)
    if not folder.is_dir():
        return None
    path = folder / LOCK_FILE
    try:
        return parse_lock(path, whole=not is_redacted(bundle.root, path))
    except ConfigError as e:
        raise BundleError(str(e)) from None
