"""A Docker engine of a test's own, which it may stop: other folders, another socket and bridge, no firewall rules."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.containers.waiting import until

ADD_BRIDGE, REMOVE_BRIDGE = 0x89A0, 0x89A1  # SIOCBRADDBR, SIOCBRDELBR
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1


class Daemon:
    """An engine that can be stopped and started again."""

    def __init__(self, program: str, folder: Path) -> None:
        self.folder = folder
        self._command = (
            program,
            *("--host", f"unix://{folder / 'docker.sock'}", "--pidfile", str(folder / "pid")),
            *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
            *("--containerd-namespace", folder.name, "--containerd-plugins-namespace", f"{folder.name}-plugins"),
            # A bridge of its own: told to use none, an engine removes docker0, which is another's.
            *("--bridge", folder.name, "--iptables=false", "--ip-masq=false"),
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """As DOCKER_HOST names it."""
        return f"unix://{self.folder / 'docker.sock'}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        if self._process is None:
            with (self.folder / "dockerd.log").open("ab") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
            until(self._answers, timeout_s=60)

    def end(self) -> None:
        """Stop it as a service manager does."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def empty(self) -> None:
        """Remove all that it holds: its networks would stay behind as interfaces of this host."""
        client = docker.DockerClient(base_url=self.address)
        for container in client.containers.list(all=True):
            container.remove(force=True)
        client.networks.prune()
        client.close()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "dockerd.log").read_text("utf-8")[-2000:]
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.folder / "docker.sock")) == 0


@contextlib.contextmanager
def second_engine() -> Iterator[Daemon]:
    """Start an engine beside the machine's own, and remove everything of it at the end."""
    program = shutil.which("dockerd")
    if program is None or os.getuid() != 0:
        pytest.skip("a second engine takes root and dockerd")
    folder = Path(tempfile.gettempdir()) / f"qd{secrets.token_hex(4)}"  # short: it also names a bridge and a namespace
    folder.mkdir()
    daemon = Daemon(program, folder)
    with _bridge(folder.name):
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.start()
            daemon.empty()
            daemon.end()
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _bridge(name: str) -> Iterator[None]:
    padded = name.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, ADD_BRIDGE, struct.pack("16s", padded))
        try:
            yield
        finally:
            _, flags = struct.unpack("16sH", fcntl.ioctl(control, GET_FLAGS, struct.pack("16sH", padded, 0)))
            fcntl.ioctl(control, SET_FLAGS, struct.pack("16sH", padded, flags & ~UP))
            fcntl.ioctl(control, REMOVE_BRIDGE, struct.pack("16s", padded))
