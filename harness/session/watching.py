"""Everything that is sampled while a launch runs: its processes on the host, and the lane's GPUs."""

from __future__ import annotations

import contextlib
from collections.abc import MutableMapping, Sequence

from harness.config.model import Profile
from harness.evidence.bundle import LaunchDir
from harness.launch.launcher import Server
from harness.observe.sampler import HostSampler, proportional_bytes
from harness.records import GpuWatch
from harness.session.gpus import GpuGuard


class Watching:
    """The samplers of one launch. A full disk ends a file, and never the launch: what is missing shows."""

    def __init__(
        self, profile: Profile, gpus: Sequence[str], folder: LaunchDir, gpu_baseline: MutableMapping[str, int]
    ) -> None:
        self._gpus = GpuGuard(profile, gpus, folder, gpu_baseline)
        self._folder = folder
        self._host: HostSampler | None = None

    @property
    def gpu(self) -> GpuWatch | None:
        """What is known of the GPUs so far; None without any."""
        return self._gpus.watch

    def begin(self) -> None:
        """Watch the GPUs, before there is a server.

        Raises:
            LaunchFailed: they are in use, or cannot be watched.
        """
        self._gpus.begin()

    def follow(self, server: Server) -> None:
        """Watch the server's processes, and know them on the GPUs."""
        self._gpus.own(server.host_pids())
        pss = None if self.gpu else proportional_bytes  # beside GPUs it costs, and decides nothing
        self._host = HostSampler(server.usage, self._folder.host_samples_file, read_pss=pss)
        self._host.start()

    def read(self, *, everything: bool = False) -> None:
        """Have a sample at a moment that the figures refer to, outside of what is timed."""
        self._gpus.read(everything=everything)
        if self._host is not None:
            with contextlib.suppress(OSError):
                self._host.read_now()

    def vanished_worker(self) -> str | None:
        """The rank whose process was gone before the others, as the samples tell it so far."""
        with contextlib.suppress(OSError):
            return self._host.vanished_worker() if self._host is not None else None
        return None

    def server_ended(self) -> bool | None:
        """Wait for the GPUs' memory; see `GpuGuard.server_ended`."""
        return self._gpus.server_ended()

    def finish(self) -> GpuWatch | None:
        """Write the samples. Safe to call twice."""
        host, self._host = self._host, None
        if host is not None:
            with contextlib.suppress(OSError):
                host.finish()
        return self._gpus.finish()
