"""Sessions of the fake server on GPUs of the fake NVML."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.fakes.gpu_user import register
from harness.fakes.nvml import VARIABLE, Gpu, Host, write_host
from harness.paths import PROJECT

from .sessions import Finished, fake_profile, run, sets, stack

GPU = Gpu("GPU-0")
SHORT = (
    "course.contexts=[{prompt_tokens=64,prefill_passes=1,decode_passes=0},{prompt_tokens=2048,prefill_passes=0}]",
    "course.identity_prompts=1",
)
"""Memory needs no more than a short and a long first prompt."""


@dataclass
class GpuBench:
    """A host with GPUs, and sessions on it."""

    folder: Path
    gpus: Sequence[Gpu] = (GPU,)
    settings: list[str] = field(default_factory=lambda: [*SHORT, "timeouts.gpu_release_s=20"])

    def describe(self, **host: object) -> None:
        write_host(self.folder / "nvml", Host(**{"gpus": tuple(self.gpus), **host}))  # type: ignore[arg-type]

    @property
    def nvml(self) -> Path:
        return self.folder / "nvml"

    def run(self, *, control: str = "", candidate: str = "", arguments: Sequence[str] = ()) -> Finished:
        """A session whose arms have these faults."""
        return run(self.folder / "results", *self.options(control, candidate), *arguments, env=self.env)

    @property
    def told(self) -> dict[str, str]:
        """What harness and server are told; the fake server is of this checkout, whichever one is installed."""
        return {VARIABLE: str(self.nvml), "PYTHONPATH": str(PROJECT)}

    @property
    def env(self) -> dict[str, str]:
        """The harness's environment. Its locks are its own: GPUs of one name in several tests are not the same."""
        folder = self.folder / "locks"
        folder.mkdir(exist_ok=True)
        return {**self.told, "TMPDIR": str(folder)}

    def options(self, control: str = "", candidate: str = "") -> list[str]:
        """Options of such a session; the host is described where it is not yet."""
        if not self.nvml.exists():
            self.describe()
        stacks = [
            f"--{arm}={stack(self.folder, arm, QUALIFY_FAKE_FAULTS=faults)}"
            for arm, faults in (("control", control), ("candidate", candidate))
            if faults
        ]
        settings = [f"host.gpus={len(self.gpus)}", *self.settings]
        settings += [f"serve.env.{name}='{value}'" for name, value in self.told.items()]
        return ["--profile", str(fake_profile(self.folder)), *stacks, *sets(*settings)]

    @contextlib.contextmanager
    def somebody(self, used_mib: int = 1_000, **how: object) -> Iterator[int]:
        """Another process on the first GPU; its pid."""
        command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            if not self.nvml.exists():
                self.describe()
            register(self.nvml, process.pid, (self.gpus[0].uuid,), used_mib, **how)
            yield process.pid
            process.kill()
