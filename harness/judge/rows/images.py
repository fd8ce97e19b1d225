"""Did every container hold what its arm's lock says? Without that, figures are somebody else's."""

from __future__ import annotations

from collections.abc import Iterator

from harness.image.differences import compare
from harness.image.expected import expected_of
from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.records import ArmImage, Row
from harness.words import Arm, LaunchStatus, Word

NAME = "image as locked"


def rows(case: Case) -> Iterator[Row]:
    """One row for the session; none where the servers were processes of the host."""
    images = {arm: image for arm in Arm if (image := case.locks[arm].image) is not None}
    if not images:
        return
    launches = [x for x in case.launches.values() if x.record is not None]
    faults = [fault for x in launches for fault in _faults(case, x)]
    unseen = [x for x in launches if x.record and x.record.status is LaunchStatus.COMPLETED and x.image is None]
    looked = [x.image for x in launches if x.image is not None]
    if faults:
        word, reason = Word.SETUP_FAILURE, "; ".join(faults)
    elif unseen:
        word, reason = Word.VOID, f"{unseen[0].folder.id}: nobody looked into its container (image.json is missing)"
    elif not looked:
        word, reason = Word.NOT_TESTED, "no container got as far as to be looked into"
    else:
        files = sum(len(p.files) for found in looked if found.probed for p in found.probed.packages.values())
        word = Word.PASS
        reason = f"identity and {files} patched files, read back from {len(looked)} running containers, are as locked"
    yield Row(
        name=NAME,
        control=_shown(images.get(Arm.CONTROL)),
        candidate=_shown(images.get(Arm.CANDIDATE)),
        word=word,
        reason=reason,
        sources=tuple(
            f"launches/{x.folder.id}/{'launch.json container' if x.image is None else 'image.json'}" for x in launches
        ),
    )


def _faults(case: Case, launch: LaunchEvidence) -> Iterator[str]:
    """Held against the bundle's own lock again: what was expected at run time is not asked."""
    record = launch.record
    assert record is not None
    arm = record.launch.arm
    image = case.locks[arm].image
    if image is None:
        return
    if record.container is not None and record.container.image_id != image.image_id:
        yield f"{launch.folder.id}: ran image {record.container.image_id}, expected {image.image_id}"
    if launch.image is not None:
        expected = expected_of(image, case.stack_locks.get(arm))
        served = case.plan.profile.model.served_name
        yield from (f"{launch.folder.id}: {m}" for m in compare(expected, launch.image, served_model=served))


def _shown(image: ArmImage | None) -> str | None:
    """`sha256:` and the first digits; the whole stands in the report's identities."""
    return image.image_id[:19] if image is not None else None
