"""Starts servers in containers as a session does, and stops what a test left running."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config.image import Image, Mount
from harness.launch.docker.launcher import DockerLauncher
from harness.launch.docker.server import DockerServer
from harness.launch.environment import server_environment
from harness.launch.launcher import Folders, ServerSpec, View
from harness.paths import PROJECT
from harness.records import Exit
from tests.containers.waiting import until

FAKES = "/opt/fakes"
GRACE_S = 5.0
SESSION = f"a-test-{uuid.uuid4().hex}"
"""Another test run may use the same engine at the same time."""


def fakes_image(reference: str, **changes: object) -> Image:
    """The test image with the fake server mounted into it."""
    mounts = (Mount(source=str(PROJECT / "harness"), target=f"{FAKES}/harness"),)
    return Image.model_validate({"reference": reference, "shm_size_gib": 1, "mounts": mounts, **changes})


@dataclass(frozen=True)
class Running:
    """A started server and where its things are."""

    server: DockerServer
    spec: ServerSpec

    def ended(self) -> Exit:
        """How it ended by itself."""
        exit_ = until(self.server.ended)
        assert exit_ is not None
        return exit_

    def stop(self, grace_s: float = GRACE_S) -> Exit:
        return self.server.stop(grace_s)

    @property
    def log(self) -> bytes:
        return self.spec.log_file.read_bytes()

    @property
    def times(self) -> list[list[int]]:
        return [json.loads(line) for line in self.spec.log_times_file.read_text("ascii").splitlines()]

    @property
    def description(self) -> dict[str, Any]:
        """container.json, as it lies in the bundle."""
        assert self.spec.container_file is not None
        found: dict[str, Any] = json.loads(self.spec.container_file.read_bytes())
        return found

    @property
    def id(self) -> str:
        facts = self.server.container()
        assert facts is not None
        return facts.container_id


@dataclass
class Bench:
    """Starts servers; all are stopped at the end."""

    reference: str
    root: Path
    launchers: list[DockerLauncher] = field(default_factory=list)
    servers: list[DockerServer] = field(default_factory=list)

    def prepare(
        self,
        *argv: str,
        command: tuple[str, ...] = ("python3", "-c"),
        env: dict[str, str] | None = None,
        model: str = "some/model-of-a-hub",
        gpus: tuple[str, ...] = (),
        **image: object,
    ) -> tuple[DockerLauncher, ServerSpec]:
        """What starts `command` with arguments in the test image; `image` changes the profile's [image]."""
        launcher = DockerLauncher(fakes_image(self.reference, **image), command)
        self.launchers.append(launcher)
        root = self.root / f"{len(self.launchers):03d}"
        folders = Folders(model, root / "caches", root / "work", gpus)
        for folder in (folders.caches, folders.work / "home"):
            folder.mkdir(parents=True)
        view = launcher.view(folders)
        environment = server_environment(
            engine=command[0],
            home=view.work / "home",
            temporary=view.work,
            caches=view.caches,
            layers=(view.defaults, {"PYTHONPATH": FAKES, **(env or {})}, view.owned),
        )
        spec = ServerSpec(
            launch=root.name,
            argv=[*command, *(_filled(a, view) for a in argv)],
            env=environment,
            port=view.port,
            log_file=root / "server.log",
            log_times_file=root / "server.log.times.jsonl",
            work_dir=folders.work,
            folders=folders,
            session=SESSION,
            container_file=root / "container.json",
        )
        return launcher, spec

    def start(self, *argv: str, **how: Any) -> Running:
        """Prepare and start."""
        launcher, spec = self.prepare(*argv, **how)
        server = launcher.start(spec)
        self.servers.append(server)
        return Running(server, spec)

    def fake(self, model: Path, *, env: dict[str, str] | None = None, **image: object) -> Running:
        """Start the fake vLLM server."""
        argv = ("serve", "{model}", "--host", "{host}", "--port", "{port}")
        command = ("python3", "-m", "harness.fakes")
        return self.start(*argv, command=command, env=env, model=str(model), **image)

    def close(self) -> None:
        """Stop what runs."""
        for server in self.servers:
            server.stop(0)
        for launcher in self.launchers:
            launcher.close()


def _filled(argument: str, view: View) -> str:
    return argument.replace("{port}", str(view.port)).replace("{host}", view.host).replace("{model}", view.model)
