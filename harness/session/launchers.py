"""The launchers of a session: processes of this host, or containers of each arm's image."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from harness.config.model import Profile
from harness.evidence.bundle import Bundle
from harness.launch.launcher import Launcher
from harness.launch.process import ProcessLauncher
from harness.paths import work_root
from harness.session.compose import engine_command
from harness.words import Arm

if TYPE_CHECKING:
    from harness.launch.docker.launcher import DockerLauncher


def launchers_of(bundle: Bundle) -> dict[Arm, Launcher]:
    """What starts each arm's servers; one and the same launcher where the arms need no two."""
    profile = bundle.plan().profile
    if profile.launcher == "process":
        return dict.fromkeys(Arm, process_launcher())
    names = {arm: image.name for arm in Arm if (image := bundle.lock(arm).image) is not None}
    made = {name: docker_launcher(profile, name) for name in set(names.values())}
    return {arm: made[name] for arm, name in names.items()}


def process_launcher() -> ProcessLauncher:
    """The launcher of this host's processes, with its state below the results."""
    return ProcessLauncher(work_root() / "running")


def docker_launcher(profile: Profile, name: str = "") -> DockerLauncher:
    """The launcher of an image on this host's Docker engine: `name`, else the one that the profile pins."""
    from harness.launch.docker.launcher import DockerLauncher  # noqa: PLC0415  # the SDK, only where it is needed

    assert profile.image is not None, "a profile with this launcher names an image"
    return DockerLauncher(profile.image, engine_command(profile), name=name)


def remove_abandoned_containers() -> list[str]:
    """Remove what a dead harness left in containers; say what.

    Raises:
        SetupFailure: there is no engine that could be asked.
    """
    from harness.launch.docker.cleaning import clean_up  # noqa: PLC0415
    from harness.launch.docker.engine import connect  # noqa: PLC0415

    with contextlib.closing(connect()) as engine:
        return clean_up(engine)
