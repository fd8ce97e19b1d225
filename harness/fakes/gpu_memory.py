"""What the fake server does to the GPUs of the fake NVML: weights, KV cache, first long prompt, faults."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from harness.fakes import nvml
from harness.fakes.faults import Faults
from harness.fakes.gpu_user import Registration, register, wait_until_seen

WEIGHTS_MIB = 2_000
LEFT_FREE_MIB = 2_048
"""What the KV cache leaves free."""


class GpuMemory:
    """This process's part of each GPU that it may see; nothing where there is no fake NVML."""

    def __init__(self, environ: Mapping[str, str], faults: Faults) -> None:
        folder = environ.get(nvml.VARIABLE)
        self._folder = Path(folder) if folder else None
        self._uuids = tuple(filter(None, environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
        self._faults = faults
        self._user: Registration | None = None
        self._late: dict[str, int] = {}
        """Faults that come with the first long prompt."""
        self._more_mib = 0
        """Held beyond the rest, on the ranks that faults are on."""
        self._lock = threading.Lock()

    def load(self) -> None:
        """Weights, and with them the faults that hold for the whole life of the server."""
        if self._folder is None or not self._uuids:
            return
        one = {
            "gpu-throttled": {"clock_reasons": 0x40},
            "gpu-power-capped": {"clock_reasons": 0x4},
            "gpu-ecc": {"ecc_uncorrected": 1},
            "gpu-lost": {"lost": 1},
        }
        settings = {k: v for name, values in one.items() if self._faults.hit(name) for k, v in values.items()}
        for name, key in (("gpu-power-limit", "power_limit_w"), ("gpu-xid", "xid")):
            for fault in self._faults.all(name):
                settings[key] = fault.number
        linger_s = max((f.number for f in self._faults.all("gpu-lingers")), default=0)
        self._late = {k: settings.pop(k) for k in ("ecc_uncorrected", "xid", "lost") if k in settings}
        self._user = register(self._folder, os.getpid(), self._uuids, WEIGHTS_MIB, linger_s=linger_s, settings=settings)

    def size_kv(self) -> None:
        """The KV cache takes all but a rest."""
        if self._folder is None or self._user is None:
            return
        free = min(g.memory_mib - (g.reserved_mib or 0) for g in nvml.read_host(self._folder).gpus)
        left = min((f.number for f in self._faults.all("gpu-leaves")), default=LEFT_FREE_MIB)
        self._hold(free - LEFT_FREE_MIB, LEFT_FREE_MIB - left)

    def first_long_prompt(self) -> None:
        """What is taken for good, what is given back once somebody has seen it, and what breaks."""
        if self._folder is None or self._user is None:
            return
        with self._lock:
            used, more = self._user.used_mib, self._more_mib
            for fault in self._faults.all("gpu-peaks"):
                self._hold(used, more + fault.number)
                wait_until_seen(self._folder, self._uuids)
            self._hold(used, more + sum(f.number for f in self._faults.all("gpu-keeps")), **self._late)

    def _hold(self, used_mib: int, more_mib: int, **settings: int) -> None:
        """So much on every GPU, and more on those of the ranks that `on-rank` names, or on all."""
        assert self._folder is not None
        assert self._user is not None
        self._more_mib = more_mib
        self._user = register(
            self._folder,
            os.getpid(),
            self._uuids,
            used_mib,
            more_mib={self._uuids[n]: more_mib for n in self._faults.ranks(len(self._uuids))},
            linger_s=self._user.linger_s,
            settings={**self._user.settings, **settings},
        )
