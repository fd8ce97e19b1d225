"""The image of each arm: the one that the profile pins, or the stack's base with its patch heads laid over it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.config.load import Loaded
from harness.config.model import Profile, Stack
from harness.errors import ConfigError
from harness.evidence.bundle import Bundle
from harness.image.expected import expected_of
from harness.paths import locks_root, work_root
from harness.records import ArmImage
from harness.session.compose import engine_command
from harness.session.launchers import docker_launcher
from harness.session.selection import Selection
from harness.stack.artifacts import file_sha256
from harness.stack.lock import Request, lock_stack
from harness.stack.placing import place
from harness.stack.reading import read_lock, refuse_outdated
from harness.stack.record import LOCK_FILE, StackLock
from harness.words import Arm

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Resolved:
    """An arm's image, ready to be started, and what it was made from."""

    image: ArmImage
    engine_version: str
    lock_folder: Path | None = None
    """None for a stack without patches."""
    build_log: Path | None = None


def resolve_images(chosen: Selection, tell: Tell) -> dict[Arm, Resolved]:
    """Lock, build and look into what both arms run in. Equal locks share one image.

    Raises:
        ConfigError: a lock is missing its stack, or says something else than the stack does now.
        SetupFailure: an image cannot be had or built, or does not hold what its lock says.
    """
    profile = chosen.profile.model
    # Every lock first: a build may take an hour, and the other arm's stack must not fail after it.
    locks = {
        arm: _locked(stack, chosen.lock_folder(arm), tell) for arm in Arm if (stack := chosen.stack(arm)).model.base
    }
    built: dict[str, Resolved] = {}
    for arm, (folder, lock) in locks.items():
        if lock.sha256 not in built:
            built[lock.sha256] = _built(profile, chosen.stack(arm).model, folder, lock, tell)
    return {arm: built[locks[arm][1].sha256] if arm in locks else _pinned(profile, tell) for arm in Arm}


def keep_lock(resolved: Resolved, bundle: Bundle, arm: Arm) -> None:
    """Put the lock, its patches and the build's log into the bundle: they are what the arm is."""
    if resolved.lock_folder is not None:
        lock = read_lock(resolved.lock_folder)
        folder = bundle.stack_lock_dir(arm)
        names = [LOCK_FILE, *(name for c in lock.components for name in (c.patch_file, c.composed_file))]
        place({folder / name: resolved.lock_folder / name for name in names})
    if resolved.build_log is not None:
        place({bundle.build_log(arm): resolved.build_log})


def refuse_images(stacks: tuple[Loaded[Stack], ...], profile: Profile) -> None:
    """An unpatched engine must never be measured under the name of a patched one.

    Raises:
        ConfigError: a stack has an image, and the profile starts processes.
    """
    for stack in (s.model for s in stacks):
        if stack.base is not None:
            raise ConfigError(
                f"stack {stack.name} has an image of its own ([base]), and profile {profile.name} starts processes of "
                'this host; choose a profile with launcher = "docker", or a stack that differs in flags, environment '
                "or model"
            )


def _pinned(profile: Profile, tell: Tell) -> Resolved:
    assert profile.image is not None
    reference = profile.image.reference
    with contextlib.closing(docker_launcher(profile)) as launcher:
        version = launcher.prepare(tell, gpus=profile.host.gpus)
        return Resolved(ArmImage(name=reference, image_id=launcher.image_id(), base_reference=reference), version)


def _locked(stack: Loaded[Stack], given: Path | None, tell: Tell) -> tuple[Path, StackLock]:
    """The stack's lock: the one that was named, the one that is there, or a new one."""
    folder = given or locks_root() / stack.model.name
    if given is None and not (folder / LOCK_FILE).exists():
        tell(f"locking {stack.model.name}")
        lock_stack(Request(stack=str(stack.path)))
    lock = read_lock(folder)
    refuse_outdated(lock, folder / LOCK_FILE, stack.model, stack.path, f"qualify lock {stack.model.name}")
    return folder, lock


def _built(profile: Profile, stack: Stack, folder: Path, lock: StackLock, tell: Tell) -> Resolved:
    from harness.image.build import build_image  # noqa: PLC0415  # the SDK, only where it is needed

    log = work_root() / "builds" / f"{lock.stack}-{lock.sha256[:12]}.log"
    made = build_image(folder, log, tell=tell)
    image = ArmImage(
        name=made.image_id,
        image_id=made.image_id,
        base_reference=made.base_reference,
        tag=made.tag,
        base_image_id=made.base_image_id,
        labels=made.labels,
        lock_sha256=lock.sha256,
        builder=made.builder,
        reused=made.reused,
        build_log_sha256=file_sha256(log) if made.tag and log.is_file() else None,
    )
    with contextlib.closing(docker_launcher(profile, made.image_id)) as launcher:
        version = launcher.prepare(tell, gpus=profile.host.gpus)
    _look_into(profile, stack, image, lock)
    return Resolved(image, version, folder, log if image.build_log_sha256 else None)


def _look_into(profile: Profile, stack: Stack, image: ArmImage, lock: StackLock) -> None:
    """What the image holds, before the first start: on a GPU that takes minutes.

    Raises:
        SetupFailure: it is not what the lock says.
    """
    from harness.image.verify import raise_for, verify_image  # noqa: PLC0415  # the SDK, only where it is needed
    from harness.launch.docker.engine import connect  # noqa: PLC0415

    environment = profile.serve.env | stack.serve.env
    with contextlib.closing(connect()) as engine:
        found = verify_image(engine, expected_of(image, lock), command=engine_command(profile), environment=environment)
    raise_for(found)
