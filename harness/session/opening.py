"""Open a session: check that it can run, resolve both arms, freeze the plan into a new bundle."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.config.model import Profile
from harness.errors import SetupFailure
from harness.evidence import pipe
from harness.evidence.bundle import Bundle, write_atomically, write_record
from harness.evidence.keys import load_key
from harness.evidence.origin import host_facts, origin
from harness.evidence.sessions import enter_start
from harness.forge.truth import load_rule
from harness.launch.interpreter import interpreter_of
from harness.paths import results_root, work_root
from harness.records import HostFacts, Lock, Plan, Run, Signer
from harness.session.compose import engine_command, model_of
from harness.session.host import gpus, gpus_of_lanes
from harness.session.images import Resolved, keep_lock, refuse_images, resolve_images
from harness.session.launchers import process_launcher, remove_abandoned_containers
from harness.session.owner import own
from harness.session.plan import make_plan
from harness.session.selection import Selection
from harness.session.selftest import self_test
from harness.words import Arm

HASHED_BELOW_BYTES = 1 << 30
"""Larger weight files are named by their size: hashing them takes longer than loading them."""

Freeze = Callable[[Plan, HostFacts, Mapping[Arm, Lock]], tuple[Plan, list[str]]]
"""Puts what the host remembers into a plan, and says what there is to say. Handed down: a session has no history."""

VERSION_PROGRAM = "import importlib.metadata as m; print(m.version('vllm'))"


def new_session_name(profile: str) -> str:
    """A name that sorts by time and that no other session has."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{profile}-{secrets.token_hex(3)}"


def open_session(
    chosen: Selection,
    *,
    checks: str = "",
    tell: Callable[[str], None] = lambda _: None,
    freeze: Freeze | None = None,
) -> tuple[Bundle, list[str]]:
    """A bundle with everything that is known before the first launch, and what was cleaned up first.

    Args:
        chosen: profile, stacks and their locks.
        checks: the suites' selection, in the words of pytest.
        tell: is told what takes long.
        freeze: puts the host's history into the plan; None leaves it out.

    Raises:
        SetupFailure: this host cannot run the session.
        ConfigError: the stacks do not fit the profile.
    """
    profile = chosen.profile.model
    key = load_key()
    gpus_of_lanes(profile)
    notes = process_launcher().clean_up()
    images: dict[Arm, Resolved] = {}
    if profile.launcher == "docker":
        notes += remove_abandoned_containers()
        images = resolve_images(chosen, tell)
        versions = {arm: images[arm].engine_version for arm in Arm}
    else:
        refuse_images((chosen.control, chosen.candidate), profile)
        versions = dict.fromkeys(Arm, _check_engine(profile))
    session = new_session_name(profile.name)
    plan = make_plan(session, profile, chosen.control.model, chosen.candidate.model, smoke=chosen.smoke)
    locks = [_lock(plan, arm, versions[arm], images.get(arm)) for arm in Arm]
    if profile.launcher == "docker":
        _check_mountable(locks)
    host = host_facts(tuple(f"{g.name}, {g.memory_mib} MiB" for g in gpus()))
    if freeze is not None:
        plan, told = freeze(plan, host, {lock.arm: lock for lock in locks})
        for line in told:
            tell(line)

    bundle = Bundle(results_root() / session)
    pipe.begin(bundle.root)
    own(bundle.root)
    for lock in locks:
        write_record(bundle.lock_file(lock.arm), lock)
        if lock.known_answers:
            write_atomically(bundle.truth_file(lock.arm), (Path(lock.model) / "truth.json").read_bytes())
        if lock.arm in images:
            keep_lock(images[lock.arm], bundle, lock.arm)
    write_record(bundle.plan_file, plan)
    if profile.client.selftest_s:
        tell("testing the client against the built-in server")
        write_record(bundle.selftest_file, self_test(profile.client))
    write_record(
        bundle.run_file,
        Run(
            session=session,
            started_wall=datetime.now(UTC).isoformat(timespec="seconds"),
            harness=origin(),
            host=host,
            selection=checks,
            signer=None if key is None else Signer(key_id=key.id, public=key.public),
        ),
    )
    enter_start(bundle)
    _point_latest_to(bundle.root)
    return bundle, notes


def _check_engine(profile: Profile) -> str:
    command = engine_command(profile)
    executable = command[0]
    if shutil.which(executable) is None:
        raise SetupFailure(f"engine {executable} is not installed; run `make setup`, or set engine.command")
    version = engine_version(command)
    if profile.engine.version and profile.engine.version != version.partition("+")[0]:
        raise SetupFailure(
            f"engine {executable} is vLLM {version}, the profile expects {profile.engine.version}; "
            "run `make setup`, or set engine.version"
        )
    return version


def _check_mountable(locks: list[Lock]) -> None:
    """A model folder that only this host can read whole is refused before it fails in a container."""
    from harness.launch.docker.settings import check_model  # noqa: PLC0415

    for lock in locks:
        if Path(lock.model).is_dir():
            check_model(Path(lock.model))


def engine_version(command: Sequence[str]) -> str:
    """Version of the vLLM that the command's own interpreter imports, 'unknown' where it does not say."""
    python = interpreter_of(command)
    if python is None:
        return "unknown"
    try:
        done = subprocess.run([*python, "-c", VERSION_PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    except OSError:  # a script of an environment that was moved: its launch will say so
        return "unknown"
    return done.stdout.strip() or "unknown"


def _lock(plan: Plan, arm: Arm, engine: str, resolved: Resolved | None) -> Lock:
    stack = plan.stack(arm)
    model = model_of(plan.profile, stack, work_root() / "models")
    folder = Path(model)
    return Lock(
        arm=arm,
        stack=stack.name,
        engine_version=engine,
        model=model,
        model_sha256=_model_hashes(folder) if folder.is_dir() else {},
        known_answers=load_rule(folder) is not None,
        image=resolved.image if resolved is not None else None,
    )


def _model_hashes(folder: Path) -> dict[str, str]:
    import hashlib  # noqa: PLC0415

    hashes = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        size = path.stat().st_size
        if size > HASHED_BELOW_BYTES:
            hashes[path.relative_to(folder).as_posix()] = f"not hashed, {size} bytes"
            continue
        with path.open("rb") as stream:
            hashes[path.relative_to(folder).as_posix()] = hashlib.file_digest(stream, "sha256").hexdigest()
    return hashes


def _point_latest_to(bundle: Path) -> None:
    """`results/latest`, replaced in one step, so that it always points somewhere."""
    link = bundle.parent / "latest"
    temporary = bundle.parent / f".latest.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(bundle.name)
    temporary.replace(link)
