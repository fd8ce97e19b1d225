"""Run the launches of a session's lanes: one at a time per lane, in the plan's order, none lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from filelock import FileLock

from harness.config.checks import Check
from harness.errors import SetupFailure
from harness.evidence.bundle import Bundle, write_record
from harness.forge.truth import load_rule_file
from harness.launch.caches import LaneCaches
from harness.launch.launcher import Launcher, LaunchFailed
from harness.launch.locks import lane_lock
from harness.paths import work_root
from harness.records import GPU_STAGE, Plan, PlannedLaunch
from harness.records.statistics import Look, Rerun
from harness.session.checking import checks_of, wait_for_checks
from harness.session.host import gpus_of_lanes
from harness.session.live import LiveLaunch, never_begun
from harness.session.proving import proof_of
from harness.words import Arm, LaunchStatus

LOCK_WAIT_S = 5.0


class AlreadyFailed(Exception):  # noqa: N818  # reads as what happened
    """This launch has failed before; the reason was reported then."""


class NotNeeded(Exception):  # noqa: N818  # reads as what was found
    """A launch that is run only under a condition, which does not hold."""


class Conductor:
    """Starts and stops the launches of one process (with xdist: of one worker)."""

    def __init__(
        self,
        bundle: Bundle,
        launchers: Mapping[Arm, Launcher],
        first_look: Callable[[Bundle, str], Look] | None = None,
        judge_pair: Callable[[Bundle, tuple[PlannedLaunch, PlannedLaunch]], Rerun] | None = None,
    ) -> None:
        """Take the plan of a bundle.

        `first_look` says whether a mode needs the launches of its second look, `judge_pair` whether a pair that
        has run must be run once more.
        """
        self.bundle = bundle
        self.plan: Plan = bundle.plan()
        self._launchers = launchers
        self._proofs = {arm: proof_of(bundle, arm) for arm in Arm}
        self._live: LiveLaunch | None = None
        self._failed: dict[str, str] = {}
        self._first_look = first_look
        self._looks: dict[str, Look] = {}
        self._judge_pair = judge_pair
        self._reruns: dict[str, Rerun] = {}
        self._locks: dict[int, list[FileLock]] = {}
        self._lanes: tuple[tuple[str, ...], ...] | None = None
        self._gpu_baselines: dict[int, dict[str, int]] = {}
        """By lane and GPU: bytes in use before the lane's first launch."""
        self._models = {arm: bundle.lock(arm).model for arm in Arm}
        self._ids_below = _ids_below(bundle)
        self.source_checks = checks_of(self.plan)
        self.awaited_checks: tuple[Check, ...] = ()
        """Those that this run was asked for: nothing is launched before they have ended."""
        self._unchecked: SetupFailure | None = None

    def enter(self, launch: PlannedLaunch) -> LiveLaunch:
        """The running server of this launch, started now if it is not running yet.

        Raises:
            LaunchFailed: it did not come up, or it has died since.
            SetupFailure: it could not even be started.
            AlreadyFailed: one of these was raised for it before.
            NotNeeded: it is of a second look that nothing asks for, or its pair stands.
        """
        if launch.look > 1 and not self._goes_on(launch.mode):
            raise NotNeeded("no primary metric was inconclusive after the first pairs")
        if launch.again_of is not None and not self._is_void(launch):
            raise NotNeeded("the pair's measurement stands")
        if launch.id in self._failed:
            raise AlreadyFailed(self._failed[launch.id])
        if self._live is not None and self._live.launch.id == launch.id:
            if death := self._live.death():
                raise self._fail(launch, death)
            return self._live
        self.leave()
        try:
            self._hold_lane(launch.lane)
        except SetupFailure as e:
            raise self._never_begun(launch, e) from None
        if self._unchecked is not None:
            raise self._fail(launch, self._unchecked)
        if self.bundle.launch(launch.id).record_file.exists():
            # Starting it again would measure another server, and overwrite what the first one left.
            raise self._fail(launch, SetupFailure(f"{launch.id} has run already; keep the plan's order and its lanes"))
        caches, model = self._caches(launch.lane), self._models[launch.arm]
        live = LiveLaunch(
            self.plan,
            launch,
            self.bundle,
            caches,
            model,
            gpus=self._gpus(launch.lane),
            gpu_baseline=self._gpu_baselines.setdefault(launch.lane, {}),
        )
        self._live = live
        try:
            live.start(self._launchers[launch.arm], self._ids_below, prove=self._proofs[launch.arm])
        except (LaunchFailed, SetupFailure) as e:
            raise self._fail(launch, e) from None
        return live

    def leave(self, status: LaunchStatus = LaunchStatus.COMPLETED, reason: str | None = None) -> None:
        """Stop the running launch, if there is one."""
        if self._live is not None:
            self._live.stop(status, reason=reason)
            self._live = None

    def close(self, interrupted: str | None) -> None:
        """Stop what runs, give the lanes free and remove their caches."""
        if interrupted:
            self.leave(LaunchStatus.INTERRUPTED, interrupted)
        self.leave()
        for lane, locks in self._locks.items():
            self._caches(lane).remove()
            for lock in locks:
                lock.release()
        self._locks.clear()

    def _goes_on(self, mode: str) -> bool:
        """Decide once per mode, from the evidence of its first pairs, and write it down before going on."""
        if mode not in self._looks:
            self.leave()
            look = self._first_look(self.bundle, mode) if self._first_look else None
            self._looks[mode] = look or Look(mode=mode, goes_on=False, inconclusive=())
            write_record(self.bundle.look_file(mode), self._looks[mode])
        return self._looks[mode].goes_on

    def _is_void(self, launch: PlannedLaunch) -> bool:
        """Decide once per pair, from its evidence, and write it down before running it once more."""
        key = (launch.mode, launch.warmup, launch.cache, launch.pair)
        first, second = (x for x in self.plan.launches if x.measured and (x.mode, x.warmup, x.cache, x.pair) == key)
        if second.id not in self._reruns:
            self.leave()
            rerun = self._judge_pair(self.bundle, (first, second)) if self._judge_pair else None
            self._reruns[second.id] = rerun or Rerun(pair=(first.id, second.id), void=())
            if self._reruns[second.id].void:
                write_record(self.bundle.rerun_file(second.id), self._reruns[second.id])
        return bool(self._reruns[second.id].void)

    def _fail(self, launch: PlannedLaunch, error: LaunchFailed | SetupFailure) -> LaunchFailed | SetupFailure:
        self._failed[launch.id] = str(error)
        if self._live is not None and isinstance(error, LaunchFailed):
            self._live.stop(LaunchStatus.FAILED, stage=error.stage, reason=error.reason)
        self._live = None
        return error

    def _never_begun(self, launch: PlannedLaunch, error: SetupFailure) -> SetupFailure:
        """Record that the lane was not to be had, unless whoever holds it runs this very launch."""
        file = self.bundle.launch(launch.id).record_file
        if not file.exists():
            write_record(file, never_begun(launch, GPU_STAGE, str(error)))
        self._failed[launch.id] = str(error)
        return error

    def _hold_lane(self, lane: int) -> None:
        if lane not in self._locks:
            try:
                wait_for_checks(self.bundle, self.awaited_checks)
            except SetupFailure as e:
                self._unchecked = e
            self._locks[lane] = lane_lock(self._gpus(lane) or (f"{self.plan.session}/lane-{lane}",), LOCK_WAIT_S)

    def _gpus(self, lane: int) -> tuple[str, ...]:
        """UUIDs of a lane's GPUs; empty on the CPU."""
        if self._lanes is None:
            self._lanes = gpus_of_lanes(self.plan.profile)
        return self._lanes[lane]

    def _caches(self, lane: int) -> LaneCaches:
        return LaneCaches(work_root() / "caches" / self.plan.session / f"lane-{lane}")


def _ids_below(bundle: Bundle) -> int | None:
    """Bound of the prompt ids that both arms' forged models know; None where no model is forged."""
    files = [bundle.truth_file(arm) for arm in Arm]
    sizes = [len(load_rule_file(file).successor) for file in files if file.is_file()]
    return min(sizes, default=None)
