"""Everything that a machine needs before the first session: engine, base image, pull requests, images, models.

The machine is bare and lent for minutes, so what does not depend on one another runs side by side.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.config.load import load_profile, load_stack
from harness.config.options import from_arguments
from harness.errors import SetupFailure
from harness.observe.gpu.nvml import open_nvml
from harness.paths import PROJECT, work_root
from harness.session.compose import model_of
from tools.visit import base, userland

ENGINE_SCRIPT = Path(__file__).parent / "docker.sh"
Tell = Callable[[str], None]


@dataclass
class Machine:
    """What is on the machine, and where things go."""

    kit: Path
    """Holds docker.tar.xz, where the machine has no engine."""
    site: Path
    """vLLM and what it needs beside PyTorch, installed."""
    folder: Path
    tell: Tell
    places: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    """Above this process's own, for everything that is started."""

    @contextlib.contextmanager
    def ready(self, version: str, profile: str) -> Iterator[None]:
        """Prepare it all, the model of `profile` too; the registry runs for as long as this does.

        Raises:
            SetupFailure: something cannot be made; the message ends with what the program said.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor() as pool:
            engine, layers = pool.submit(self._engine), pool.submit(self._layers, version)
            forged = pool.submit(self.forge, profile)
            engine.result()
            blobs, config = layers.result()
        with base.registry(self.folder / "registry") as host:
            self.places["reference"] = base.push(host, "vllm-base", blobs, config)
            self.tell(f"base image {self.places['reference']}")
            self._images()
            forged.result()
            yield

    def _engine(self) -> None:
        """Docker of the kit, unless there is one."""
        if (self.kit / "docker.tar.xz").is_file():
            where = self.folder / "docker"
            self.tell(self._do("engine", ["sh", str(ENGINE_SCRIPT), str(self.kit), str(where)]).strip())
            self.environment["DOCKER_HOST"] = f"unix://{where}/docker.sock"
            self.environment["PATH"] = f"{where}/kit/bin:{os.environ['PATH']}"
            os.environ.update(self.environment)  # this process talks to it, too

    def _layers(self, version: str) -> tuple[list[base.Blob], Path]:
        work = self.folder / "base"
        empty = work / "empty"
        empty.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor() as pool:
            folders = base.layer(work / "folders.tar", base.empty_folders(empty), root=empty)
            programs = pool.submit(base.layer, work / "userland.tar", userland.members())
            site = pool.submit(base.layer, work / "vllm.tar", ["."], root=self.site, below=base.SITE)
            blobs = [folders, programs.result(), site.result()]
        config = work / "config.json"
        config.write_text(json.dumps(base.image_config(blobs, base.environment_here(), version)), "utf-8")
        self.tell(f"layers of {', '.join(f'{blob.bytes >> 20} MiB' for blob in blobs)}")
        return blobs, config

    def _images(self) -> None:
        """Pull requests with faults in them, locks, and the images that they make."""
        from tests.gpu.planted.pulls import Pulls  # noqa: PLC0415  # the faults are tests

        stacks = self.folder / "stacks"
        stacks.mkdir(exist_ok=True)
        files = Pulls(stacks, self.site).stacks(self.places["reference"], base.SITE)
        self.places["stacks"] = str(stacks)
        for file in files.values():
            self._do(f"lock {file.stem}", [sys.executable, "-m", "harness.cli", "lock", str(file)])
        self._do("pull", ["docker", "pull", "--quiet", self.places["reference"]])
        with ThreadPoolExecutor() as pool:
            commands = [[sys.executable, "-m", "harness.cli", "build", str(file)] for file in files.values()]
            for name, said in zip(files, pool.map(self._do, map("build {}".format, files), commands), strict=True):
                self.tell(f"image {name}: {said.strip().splitlines()[-1] if said.strip() else ''}")

    def forge(self, profile: str, assignments: Sequence[str] = ()) -> str:
        """Make the model of a profile where its sessions look for it; a large one takes a minute. Its folder."""
        what = " ".join(("model of", profile, *assignments))
        return self._do(what, ["nice", sys.executable, "-m", "tools.visit.prepare", profile, *assignments]).strip()

    def _do(self, what: str, argv: Sequence[str]) -> str:
        begin = time.monotonic()
        environment = {**os.environ, **self.environment}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=PROJECT, check=False)
        self.tell(f"{time.monotonic() - begin:6.1f} s  {what}")
        if done.returncode:
            raise SetupFailure(f"{what} failed (exit code {done.returncode}): {(done.stderr + done.stdout)[-3000:]}")
        return done.stdout


def gpus() -> list[str]:
    """UUIDs of this machine's GPUs."""
    with contextlib.closing(open_nvml()) as nvml:
        return list(nvml.uuids())


def make_model(profile: str, assignments: Sequence[str]) -> str:
    """The forged model of a profile, made where it is missing; its folder.

    Raises:
        ConfigError: the profile cannot be used, or forges none.
    """
    loaded = load_profile(profile, overrides=list(from_arguments({}, assignments)))
    return model_of(loaded.model, load_stack("").model, work_root() / "models")


if __name__ == "__main__":
    sys.stdout.write(make_model(sys.argv[1], sys.argv[2:]) + "\n")
