"""What an arm's containers must be, from the bundle's own records: its image and the lock of its stack."""

from __future__ import annotations

from harness.image.identity import ExpectedImage, expected_image
from harness.records import ArmImage
from harness.stack.record import StackLock


def expected_of(image: ArmImage, lock: StackLock | None) -> ExpectedImage:
    """What to hold an arm's containers against.

    A stack without a lock pins a manifest. So does one whose lock changes nothing that is installed:
    it runs the base itself, whose labels know of no lock.
    """
    if lock is None or image.tag is None:
        return ExpectedImage(image_id=image.image_id, manifest_digest=image.base_reference.partition("@")[2])
    return expected_image(lock, image.image_id)
