"""Start servers in containers, and leave nothing of them behind; see `Launcher`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.config.image import Image
from harness.errors import SetupFailure
from harness.launch.docker import labels, settings
from harness.launch.docker.address import socket_path
from harness.launch.docker.cleaning import clean_up
from harness.launch.docker.devices import device_nodes
from harness.launch.docker.engine import Engine, EngineError, EngineGone, Json, Missing, connect
from harness.launch.docker.outcome import environment_of
from harness.launch.docker.server import DockerServer, remove
from harness.launch.docker.stream import ContainerOutput
from harness.launch.launcher import Folders, LaunchFailed, ServerSpec, View
from harness.launch.ports import free_port
from harness.records import ENGINE_STAGE

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The engine's own where an image names none."""
VERSION_LABEL = "org.opencontainers.image.version"

HINTS = {
    "could not select device driver": "install the NVIDIA container toolkit, or set image.cdi = true",
    "nvidia-container-cli": "the NVIDIA container toolkit cannot give these GPUs; `nvidia-smi` must work on this host",
    "docker-init": "a mount of the profile lies over the image's /sbin, or over what that links to; mount less",
    "CDI device": "make the specification of the GPUs with `nvidia-ctk cdi generate`, or set image.cdi = false",
}
"""What engines say when a container cannot be started as the profile wants it, and what mends it."""


class DockerLauncher:
    """The `Launcher` for engines in an image. The engine is looked for when it is first needed."""

    def __init__(self, image: Image, command: Sequence[str], *, name: str = "") -> None:
        """`name` is what to start instead of the profile's image: the ID of one that was built from a lock."""
        self._image = image
        self._name = name or image.reference
        self._command = tuple(command)
        self._connected: Engine | None = None
        self._found: Json | None = None

    # -- before the session -----------------------------------------------------------------------

    def prepare(self, tell: Callable[[str], None], *, gpus: int) -> str:
        """Make sure that containers can be started, fetching the image if it is not here.

        Returns:
            The version that the image's label names, or `unknown`: the server's own log says more.

        Raises:
            SetupFailure: no engine, or no such image; the message says what mends it.
        """
        engine, reference = self._engine, self._name
        if gpus and self._image.cdi and not engine.knows_cdi:
            raise SetupFailure(
                f"image.cdi = true, but Docker {engine.version} offers no CDI; enable it, or set it false"
            )
        settings.extra_mounts(self._image.mounts, socket_path())
        try:
            with contextlib.suppress(Missing):
                return _version(self._described())
            tell(f"fetching {reference}")
            engine.pull(reference)
            return _version(self._described())
        except EngineGone as e:
            raise SetupFailure(str(e)) from e
        except EngineError as e:
            raise SetupFailure(
                f"image {reference} is not on this host and cannot be fetched: {e}; check name and digest, log in to "
                "its registry, or bring it with `docker load`"
            ) from e

    def image_id(self) -> str:
        """Digest of the image's configuration; after `prepare`."""
        return str(self._described()["Id"])

    def clean_up(self) -> list[str]:
        """Remove what a dead harness left; see `Launcher.clean_up`."""
        return clean_up(self._engine)

    def close(self) -> None:
        """Give the connections to the engine free."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    # -- a launch ---------------------------------------------------------------------------------

    def view(self, folders: Folders) -> View:
        """Fixed paths, whatever the host calls them; see `Launcher.view`."""
        with _told():
            environment = environment_of(self._described())
        path = environment.get("PATH", DEFAULT_PATH)
        python_path = environment.get("PYTHONPATH", "") if folders.tracer is not None else ""
        internal = self._image.network == "internal"
        return View(
            host="0.0.0.0" if internal else "127.0.0.1",  # noqa: S104  # in a network that only this host reaches
            port=settings.PORT if internal else free_port(),
            model=settings.MODEL if Path(folders.model).is_dir() else folders.model,
            caches=settings.CACHES,
            work=settings.WORK,
            tracer=settings.TRACER if folders.tracer is not None else None,
            defaults=settings.default_environment(self._command[0], path, python_path),
            owned=settings.owned_environment(self._image, folders.gpus),
        )

    def start(self, spec: ServerSpec) -> DockerServer:
        """Create a network and a container in it, connect to its output, start it; see `Launcher.start`."""
        owned = labels.new_labels(spec.session, spec.lane, spec.launch, spec.work_dir)
        network = f"qualify-{owned[labels.MARKER][:12]}" if self._image.network == "internal" else None
        with _told():
            engine, image = self._engine, self._described()
            if network is not None:
                engine.create_network(network, owned)
        container = None
        try:
            with _told():
                container = engine.create(self._config(spec, network or "host", owned))
                output = ContainerOutput(engine.attach(container))
        except BaseException:  # Ctrl-C, too
            remove(engine, container, network)
            raise
        server = DockerServer(engine, container, network=network, image=image, output=output, spec=spec)
        try:
            with _told():
                server.begin()
        except BaseException:
            server.stop(0)
            raise
        return server

    # -- parts ------------------------------------------------------------------------------------

    @property
    def _engine(self) -> Engine:
        if self._connected is None:
            self._connected = connect()
        return self._connected

    def _described(self) -> Json:
        """The image's description, asked for once: what its digest names does not change."""
        if self._found is None:
            self._found = self._engine.image(self._name)
        return self._found

    def _config(self, spec: ServerSpec, network: str, owned: Mapping[str, str]) -> Json:
        assert spec.folders is not None, "a container sees nothing of this host but its folders"
        count = len(self._command)
        return settings.container_config(
            self._image,
            name=self._name,
            entrypoint=spec.argv[:count],
            arguments=spec.argv[count:],
            environment=spec.env,
            folders=spec.folders,
            network=network,
            labels=owned,
            user=f"{os.getuid()}:{os.getgid()}",
            remaps_users=self._engine.remaps_users,
            engine_socket=socket_path(),
            devices=device_nodes(spec.folders.gpus) if self._image.gpu_access == "device-nodes" else (),
        )


def _version(image: Json) -> str:
    return str((image["Config"].get("Labels") or {}).get(VERSION_LABEL) or "unknown")


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say an engine's fault as a launch's, which is no arm's doing: docker-init starts, whatever the server is."""
    try:
        yield
    except (EngineGone, SetupFailure) as e:
        raise LaunchFailed(ENGINE_STAGE, str(e)) from e
    except EngineError as e:
        hint = next((f"; {hint}" for text, hint in HINTS.items() if text in str(e)), "")
        raise LaunchFailed(ENGINE_STAGE, f"the container cannot be started: {e}{hint}") from e
