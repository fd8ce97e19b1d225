"""The Docker engine of this host: the only module that touches the Docker SDK.

It speaks the engine's own JSON: what is asked for stands in `settings`, what comes back is read in
`outcome`, and both can be tested without an engine.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import IPAMConfig, IPAMPool

from harness.errors import SetupFailure
from harness.launch.docker.address import address, knock, why_not

NETWORK_TRIES = 5
ATTACH = {"stdout": 1, "stderr": 1, "stream": 1}

Json = dict[str, Any]


class EngineError(Exception):
    """The engine refused something; the text is its own."""


class Missing(EngineError):  # noqa: N818  # reads as what it is
    """The engine knows no such thing."""


class EngineGone(EngineError):  # noqa: N818  # reads as what happened
    """The engine does not answer any more."""


@dataclass(frozen=True)
class Found:
    """A container or network that carries one of our labels."""

    id: str
    labels: dict[str, str]


@dataclass(frozen=True)
class Executed:
    """A program that ran inside a running container, to its end."""

    code: int
    out: bytes
    err: bytes


@dataclass(frozen=True)
class Attached:
    """A container's output: the connection over which it comes, and how to let go of it."""

    connection: socket.socket
    close: Callable[[], None]


def connect() -> Engine:
    """The engine of this host.

    Raises:
        SetupFailure: there is none, or it cannot be used; the message says what mends it.
    """
    where = address()
    if not where.startswith("unix://"):
        raise SetupFailure(
            f"DOCKER_HOST={where}: folders are mounted and containers are reached directly, so the engine must be "
            "this host's own; use unix://..."
        )
    try:
        knock()
    except OSError as e:
        raise SetupFailure(why_not(e)) from e
    try:
        client = docker.DockerClient(base_url=where, version="auto")
        info: Json = client.info()
    except (DockerException, requests.RequestException, OSError) as e:
        raise SetupFailure(f"the Docker engine at {where} gives no sensible answer: {e}") from e
    if any("name=rootless" in option for option in info.get("SecurityOptions") or ()):
        client.close()
        raise SetupFailure(
            f"the Docker engine at {where} is rootless, and addresses of its containers cannot be reached from this "
            "host; point DOCKER_HOST at an engine that runs as root"
        )
    return Engine(client, info)


def client_version() -> str:
    """Version of the SDK, for a person who compares it with the engine's."""
    return f"docker-py {docker.__version__}"


class Engine:
    """What this harness asks of an engine. Every method raises `EngineError` where the engine refuses."""

    def __init__(self, client: docker.DockerClient, info: Json) -> None:
        self._client = client
        self._api: Any = client.api  # its stubs know neither raw configurations nor timeouts
        self.api_version: str = client.api.api_version
        self.version: str = info.get("ServerVersion", "unknown")
        self.remaps_users = any("name=userns" in o for o in info.get("SecurityOptions") or ())
        self.knows_cdi = bool(info.get("CDISpecDirs"))

    def close(self) -> None:
        """Give the connections free."""
        self._client.close()

    # -- images -----------------------------------------------------------------------------------

    def image(self, reference: str) -> Json:
        """The description of an image that is here."""
        with _asking():
            found: Json = self._api.inspect_image(reference)
        return found

    def pull(self, reference: str) -> None:
        """Fetch an image by `name@sha256:digest`; takes as long as it takes."""
        name, _, digest = reference.partition("@")
        with _asking():
            for line in self._api.pull(name, tag=digest, stream=True, decode=True):
                if "error" in line:  # the status was sent before the fault was known
                    raise EngineError(line["error"])

    def build(
        self, context: IO[bytes], *, tag: str, arguments: Mapping[str, str], labels: Mapping[str, str], network: str
    ) -> Iterator[Json]:
        """Have the engine's classic builder make an image from an archive; yields what the engine says of it.

        Nothing of an earlier build is taken over, and nothing of this user's: no proxy, no variables.
        """
        with _asking():
            yield from self._api.build(
                fileobj=context,
                custom_context=True,
                tag=tag,
                buildargs=dict(arguments),
                labels=dict(labels),
                network_mode=network,
                nocache=True,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=None,  # a compiler may be silent for long
                use_config_proxy=False,
            )

    def remove_image(self, image: str) -> None:
        """Remove an image that nothing is named after or made from."""
        with _asking():
            self._api.remove_image(image)

    def images(self, label: str) -> list[Found]:
        """Images that carry a label, `name` or `name=value`."""
        with _asking():
            found = self._api.images(filters={"label": label})
        return [Found(x["Id"], x["Labels"] or {}) for x in found]

    def tag(self, image: str, name: str) -> None:
        """Give an image one more name."""
        repository, _, tag = name.rpartition(":")
        with _asking():
            self._api.tag(image, repository, tag)

    def save(self, image: str) -> Iterator[bytes]:
        """The image as `docker save` gives it, in pieces."""
        with self._patiently(), _asking():
            yield from self._api.get_image(image)

    def load(self, data: Iterator[bytes]) -> list[str]:
        """Take in what `save` gave; returns what the engine says about it, line by line."""
        lines = []
        with self._patiently(), _asking():
            for line in self._api.load_image(data):
                if "error" in line:  # the status was sent before the fault was known
                    raise EngineError(line["error"])
                lines.append(str(line.get("stream", "")).strip())
        return [line for line in lines if line]

    # -- networks ---------------------------------------------------------------------------------

    def create_network(self, name: str, labels: Mapping[str, str]) -> None:
        """A network between its containers and this host, without a way out.

        Older engines give the containers of an internal network a default route to this host all the
        same and leave the rest to their firewall rules, which some hosts switch off. So the default
        route is pointed at an address that nobody has, in a subnet that the engine chose as free.
        """
        for attempt in range(NETWORK_TRIES):
            with _asking():
                self._api.create_network(name, driver="bridge", internal=True, labels=dict(labels))
                [pool] = self._api.inspect_network(name)["IPAM"]["Config"]
                self._api.remove_network(name)
            try:
                with _asking():
                    self._api.create_network(
                        name, driver="bridge", internal=True, labels=dict(labels), ipam=_without_gateway(pool)
                    )
            except EngineGone:
                raise
            except EngineError:  # another session may have taken the subnet in between
                if attempt + 1 == NETWORK_TRIES:
                    raise
            else:
                return

    def remove_network(self, name: str) -> None:
        """Remove a network that has no container any more."""
        with _asking():
            self._api.remove_network(name)

    # -- containers -------------------------------------------------------------------------------

    def create(self, config: Json) -> str:
        """Create a container from the engine's own JSON, as it is: no proxy of the user's is added to it."""
        with _asking():
            created: Json = self._api.create_container_from_config(config, None)
        return str(created["Id"])

    def attach(self, container: str) -> Attached:
        """Connect to the output of a container that has not started yet, so that no byte is missed."""
        with _asking():
            stream = self._api.attach_socket(container, params=ATTACH)
        connection: socket.socket = getattr(stream, "_sock", stream)
        connection.settimeout(None)  # a server may be silent for hours

        def close() -> None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # also wakes who reads
            stream.close()
            connection.close()

        return Attached(connection, close)

    def start(self, container: str) -> None:
        """Start a container."""
        with _asking():
            self._api.start(container)

    def inspect(self, container: str) -> Json:
        """The engine's description of a container."""
        with _asking():
            found: Json = self._api.inspect_container(container)
        return found

    def exec(self, container: str, argv: Sequence[str]) -> Executed:
        """Run a program in a running container, as its user, in its environment and working folder."""
        with _asking():
            made: Json = self._api.exec_create(container, list(argv))
            out, err = self._api.exec_start(made["Id"], demux=True)
            code = self._api.exec_inspect(made["Id"])["ExitCode"]
        return Executed(int(code), out or b"", err or b"")

    def stop(self, container: str, grace_s: float) -> None:
        """SIGTERM, and SIGKILL after the grace; returns when it has ended."""
        with _asking():
            self._api.stop(container, timeout=math.ceil(grace_s))

    def kill(self, container: str) -> None:
        """SIGKILL."""
        with _asking():
            self._api.kill(container)

    def kill_signals(self, container: str) -> list[int]:
        """Signals that the engine was told to send to a container, in order, as far back as it remembers."""
        now = time.time_ns()
        until = f"{now // 10**9}.{now % 10**9:09d}"
        with _asking():
            events = self._api.events(
                since="0", until=until, filters={"container": container, "event": "kill"}, decode=True
            )
            return [int(e["Actor"]["Attributes"].get("signal", 0)) for e in events]

    def remove(self, container: str) -> None:
        """Remove a container, running or not, and the volumes that its image declared."""
        with _asking():
            self._api.remove_container(container, v=True, force=True)

    # -- what we own ------------------------------------------------------------------------------

    def containers(self, label: str) -> list[Found]:
        """Containers that carry a label, running or not."""
        with _asking():
            found = self._api.containers(all=True, filters={"label": label})
        return [Found(x["Id"], x["Labels"] or {}) for x in found]

    def networks(self, label: str) -> list[Found]:
        """Networks that carry a label."""
        with _asking():
            found = self._api.networks(filters={"label": label})
        return [Found(x["Id"], x["Labels"] or {}) for x in found]

    @contextlib.contextmanager
    def _patiently(self) -> Iterator[None]:
        """Without a time limit: an engine writes a large image to its own disk first, and sends nothing meanwhile."""
        before, self._api.timeout = self._api.timeout, None
        try:
            yield
        finally:
            self._api.timeout = before


def _without_gateway(pool: Json) -> IPAMConfig:
    """The same subnet, with a default route that leads to its last address, where nobody is."""
    nowhere = str(ipaddress.ip_network(pool["Subnet"])[-2])
    return IPAMConfig(
        pool_configs=[
            IPAMPool(subnet=pool["Subnet"], gateway=pool.get("Gateway"), aux_addresses={"DefaultGatewayIPv4": nowhere})
        ]
    )


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Turn what the SDK raises into our own few errors."""
    try:
        knock()
        yield
    except NotFound as e:
        raise Missing(str(e.explanation)) from e
    except APIError as e:
        raise EngineError(str(e.explanation)) from e
    except (DockerException, requests.RequestException, OSError) as e:
        raise EngineGone(f"the Docker engine at {address()} does not answer any more: {e}") from e
