"""Before anything is measured: does the running container hold what its arm's lock says?"""

from __future__ import annotations

import contextlib

from harness.errors import SetupFailure
from harness.evidence.bundle import Bundle, LaunchDir, write_record
from harness.evidence.stack_lock import stack_lock
from harness.image.expected import expected_of
from harness.launch.launcher import LaunchFailed, Server
from harness.records import ENGINE_STAGE, IMAGE_STAGE
from harness.session.compose import engine_command
from harness.session.live import Proof
from harness.words import Arm


def proof_of(bundle: Bundle, arm: Arm) -> Proof | None:
    """What looks into the arm's running servers; None where there is nothing to look into."""
    image = bundle.lock(arm).image
    if image is None:
        return None
    expected = expected_of(image, stack_lock(bundle, arm))
    profile = bundle.plan().profile

    def prove(server: Server, folder: LaunchDir) -> None:
        from harness.image.verify import verify_running  # noqa: PLC0415  # the SDK, only where it is needed
        from harness.launch.docker.engine import connect  # noqa: PLC0415

        container = server.container()
        assert container is not None
        try:
            with contextlib.closing(connect()) as engine:
                found = verify_running(
                    engine,
                    container.container_id,
                    expected,
                    base_url=server.base_url,
                    served_model=profile.model.served_name,
                    command=engine_command(profile),
                    log_file=folder.log_file,
                )
        except SetupFailure as e:  # nobody could look, which says nothing about the image
            raise LaunchFailed(ENGINE_STAGE, str(e)) from e
        write_record(folder.image_file, found)
        if found.mismatches:
            raise LaunchFailed(IMAGE_STAGE, "; ".join(str(m) for m in found.mismatches))

    return prove
