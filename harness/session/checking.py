"""The source checks of a session: each once per arm, before the first launch, and never beside a measurement."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.checks.record import CheckDir
from harness.config.checks import Check
from harness.config.model import planned_checks
from harness.errors import ConfigError, SetupFailure
from harness.evidence.bundle import Bundle
from harness.records import Plan
from harness.stack.reading import read_lock
from harness.stack.record import LOCK_FILE, LockedComponent
from harness.words import Arm

if TYPE_CHECKING:  # the SDK, only where a check is run
    from harness.checks.run import Bench
    from harness.launch.docker.engine import Engine

POLL_S = 0.2
MARGIN_S = 120.0
"""Beyond the checks' own time limits: making and removing their containers."""


def image_of(plan: Plan, bundle: Bundle, arm: Arm) -> str:
    """The image in which an arm's source is: the one that its servers run in."""
    image = bundle.lock(arm).image
    if image is not None:
        return image.name
    assert plan.profile.image is not None, "checks are planned for containers only"
    return plan.profile.image.reference


def lock_folder_of(bundle: Bundle, arm: Arm) -> Path | None:
    """The folder with the arm's stack lock and the files beside it, None for an arm without patches."""
    folder = bundle.stack_lock_dir(arm)
    return folder if (folder / LOCK_FILE).is_file() else None


class SourceChecks:
    """Runs the checks of a session. The engine and the locks are looked for when the first one is run."""

    def __init__(self, bundle: Bundle, plan: Plan) -> None:
        self._bundle = bundle
        self._plan = plan
        self._engine: Engine | None = None
        self._locks: dict[Arm, Mapping[str, LockedComponent]] | None = None

    def run(self, check: Check) -> None:
        """Run a check in both arms, the control first; one that has run already keeps what it showed.

        What keeps it from running stands in its record, as everything about it does.
        """
        from harness.checks.run import not_begun, run_check  # noqa: PLC0415

        for arm in Arm:
            if CheckDir(self._bundle, check, arm).record_file.exists():
                continue  # nothing is run again until it is green
            try:
                engine, locks = self._prepared()
            except (SetupFailure, ConfigError) as e:
                not_begun(self._bundle, check, arm, str(e))
            else:
                run_check(engine, self._bench(arm), check, {a: locks[a].get(check.component) for a in Arm})

    def close(self) -> None:
        """Give the connections to the engine free."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _prepared(self) -> tuple[Engine, Mapping[Arm, Mapping[str, LockedComponent]]]:
        from harness.launch.docker.engine import connect  # noqa: PLC0415

        if self._locks is None:
            self._locks = {arm: _components(lock_folder_of(self._bundle, arm)) for arm in Arm}
        if self._engine is None:
            self._engine = connect()
        return self._engine, self._locks

    def _bench(self, arm: Arm) -> Bench:
        from harness.checks.run import Bench  # noqa: PLC0415

        profile, candidate = self._plan.profile, lock_folder_of(self._bundle, Arm.CANDIDATE)
        assert profile.image is not None, "checks are planned for containers only"
        assert self._locks is not None, "a bench comes after its locks"
        locked = self._locks[Arm.CANDIDATE].values() if candidate is not None else ()
        return Bench(
            bundle=self._bundle,
            session=self._plan.session,
            arm=arm,
            image=profile.image.model_copy(update={"reference": image_of(self._plan, self._bundle, arm)}),
            layers=(profile.serve.env, self._plan.stack(arm).serve.env),
            archives={c.name: candidate / c.composed_file for c in locked if candidate is not None},
        )


def wait_for_checks(bundle: Bundle, checks: Iterable[Check]) -> None:
    """Wait until every one of them has ended in both arms: with several lanes another process runs them.

    Raises:
        SetupFailure: they have not ended long after their time limits.
    """
    folders = [(check, CheckDir(bundle, check, arm)) for check in checks for arm in Arm]
    deadline = time.monotonic() + sum(check.timeout_s for check, _ in folders) + MARGIN_S
    while waiting := [folder for _, folder in folders if not folder.record_file.is_file()]:
        if time.monotonic() > deadline:
            raise SetupFailure(
                f"{waiting[0].root} has no end yet, and nothing is measured beside a source check; the lane that runs "
                "them is stuck or gone"
            )
        time.sleep(POLL_S)


def checks_of(plan: Plan) -> tuple[Check, ...]:
    """The session's checks, in the order in which they run."""
    return planned_checks(plan.profile, plan.control, plan.candidate)


def _components(folder: Path | None) -> Mapping[str, LockedComponent]:
    return {c.name: c for c in read_lock(folder).components} if folder is not None else {}
