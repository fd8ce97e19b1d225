"""The GPUs of one launch: found free, watched until their memory is back, never taken over in silence."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence

from harness.config.model import Profile
from harness.errors import SetupFailure
from harness.evidence.bundle import LaunchDir
from harness.launch.launcher import LaunchFailed
from harness.observe.gpu.watch import GpuSampler, SamplerDied, until
from harness.records import GPU_STAGE, GpuProcess, GpuState, GpuWatch

TOLERANCE_BYTES = 128 << 20
"""Memory that may stay in use without being called taken: what the driver itself keeps goes up and down by less."""


UNEXPLAINED_BYTES = 1 << 30
"""More in use than this before the first launch, with nobody who draws or computes, is somebody who is not listed."""


BUSY_PCT = 90
"""A GPU that is busier than this all the time, with nobody listed on it, hangs in a kernel that nobody can end."""


class GpuGuard:
    """Watches some GPUs for one launch.

    What it cannot see it does not guess, and what it cannot do any more costs the launch nothing but
    that: the record then says why, and the judge what follows. Without GPUs it does nothing.
    """

    def __init__(
        self, profile: Profile, uuids: Sequence[str], folder: LaunchDir, baseline: MutableMapping[str, int]
    ) -> None:
        """`baseline` holds the lane's memory in use, by GPU, before its first launch; that launch fills it."""
        self._uuids = uuids
        self._folder = folder
        self._hz = profile.observe.gpu_memory_hz
        self._release_s = profile.timeouts.gpu_release_s
        self._baseline = baseline
        self._sampler: GpuSampler | None = None
        self._watch = GpuWatch()

    @property
    def watch(self) -> GpuWatch | None:
        """What is known so far; None without GPUs."""
        return self._watch if self._uuids else None

    def begin(self) -> None:
        """Start watching, and make sure that nobody else computes on these GPUs.

        Raises:
            LaunchFailed: they are in use, or cannot be watched (`GPU_STAGE`).
        """
        if not self._uuids:
            return
        try:
            files = (self._folder.gpu_samples_file, self._folder.gpu_events_file)
            self._sampler = GpuSampler(self._uuids, *files, self._hz)
            states = _Latest(self._sampler)
            free = until(lambda: not self._not_free(states.look()), self._release_s)
        except (SetupFailure, SamplerDied) as e:
            raise LaunchFailed(GPU_STAGE, str(e)) from e
        self._watch = self._watch.model_copy(update={"facts": self._sampler.facts, "before": states.seen})
        if not free:
            waited = f"waited {self._release_s:g} s (timeouts.gpu_release_s)"
            raise LaunchFailed(GPU_STAGE, f"{self._not_free(states.seen)}; {waited}; end it, or use another GPU")
        for state in states.seen:
            if state.used_bytes is not None:
                self._baseline.setdefault(state.gpu, state.used_bytes)

    def own(self, pids: Sequence[int]) -> None:
        """These processes and all below them are the server's."""
        self._do(lambda sampler: sampler.own(pids))

    def read(self, *, everything: bool = False) -> None:
        """Have a reading of memory, or of everything, at this moment."""
        self._do((lambda sampler: _Latest(sampler).look()) if everything else GpuSampler.read_memory)

    def server_ended(self) -> bool | None:
        """Wait until memory and processes are as they were before the launch; None where nobody can tell."""
        begin = time.monotonic()
        before = self._watch.before
        if self._sampler is None or self._watch.fault or not before:
            return None
        was_used = {s.gpu: s.used_bytes for s in before if s.used_bytes is not None}
        known = frozenset(p.pid for s in before for p in s.processes or ())
        states = _Latest(self._sampler)
        try:
            back = until(lambda: not _taken(states.look(), was_used, known), self._release_s)
        except SamplerDied as e:
            self._note(e)
            return None
        readable = any(s.used_bytes is not None or s.processes is not None for s in states.seen)
        self._watch = self._watch.model_copy(
            update={
                "after": states.seen,
                "returned": back if readable else None,
                "return_s": time.monotonic() - begin,
                "holders": "" if back else _taken(states.seen, was_used, known),
            }
        )
        return self._watch.returned

    def finish(self) -> GpuWatch | None:
        """Stop watching, write the samples, and tell everything. Safe to call twice."""
        if self._sampler is not None:
            sampler, self._sampler = self._sampler, None
            try:
                self._watch = self._watch.model_copy(update={"sampling": sampler.finish()})
            except (SamplerDied, OSError) as e:
                self._note(e)
        return self.watch

    def _not_free(self, states: Sequence[GpuState]) -> str:
        """Why nothing may be started here, or ''."""
        return "; ".join(filter(None, (_taken(states, self._baseline), _wedged(states))))

    def _do(self, action: Callable[[GpuSampler], object]) -> None:
        if self._sampler is not None and not self._watch.fault:
            try:
                action(self._sampler)
            except SamplerDied as e:
                self._note(e)

    def _note(self, error: Exception) -> None:
        if not self._watch.fault:
            self._watch = self._watch.model_copy(update={"fault": str(error) or type(error).__name__})


class _Latest:
    """Looks, and keeps what was seen last."""

    def __init__(self, sampler: GpuSampler) -> None:
        self._sampler = sampler
        self.seen: tuple[GpuState, ...] = ()

    def look(self) -> tuple[GpuState, ...]:
        self.seen = self._sampler.look()
        return self.seen


def _taken(states: Sequence[GpuState], was_used: Mapping[str, int], known: frozenset[int] = frozenset()) -> str:
    """Who computes on these GPUs, or how much more memory is in use than before; '' when they are free.

    A process that only draws, and one that was there before, take nothing.
    """
    faults = []
    for state in states:
        users = [p for p in state.processes or () if p.compute and p.pid not in known]
        more = 0 if state.used_bytes is None else state.used_bytes - was_used.get(state.gpu, state.used_bytes)
        if state.gpu not in was_used and not state.processes and (state.used_bytes or 0) > UNEXPLAINED_BYTES:
            more = state.used_bytes or 0
        if users:
            faults.append(f"{state.gpu} is in use by {_names(users)}")
        elif more > TOLERANCE_BYTES:
            held = "held by nobody that the driver lists"
            faults.append(f"{state.gpu} has {more >> 20:,} MiB more in use than when it is free, {held}")
    return "; ".join(faults)


def _wedged(states: Sequence[GpuState]) -> str:
    """GPUs that compute though nobody is there, as after a collective that hung; '' without any.

    A desktop may keep its GPU as busy, and where processes are not listed nobody can tell.
    """
    busy = (s for s in states if s.processes == () and s.busy_pct is not None and s.busy_pct > BUSY_PCT)
    told = "and the driver lists nobody on it: it hangs; reset it (nvidia-smi --gpu-reset), or restart the host"
    return "; ".join(f"{s.gpu} is {s.busy_pct} % busy, {told}" for s in busy)


def _names(users: Sequence[GpuProcess]) -> str:
    return ", ".join(p.text for p in users)
