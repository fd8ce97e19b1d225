"""Where the engine listens, and why nobody answers there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"


def address() -> str:
    """DOCKER_HOST, else the usual socket."""
    return os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS


def socket_path() -> Path:
    """The engine's socket on this host."""
    return Path(address().removeprefix("unix://"))


def knock() -> None:
    """See whether anybody listens at all: the SDK leaks a socket when nobody does, and says every reason alike.

    Raises:
        OSError: nobody does; `why_not` says it in words.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(socket_path()))


def why_not(error: OSError) -> str:
    """What is wrong, where, and what mends it."""
    path = socket_path()
    if isinstance(error, FileNotFoundError):
        return f"no Docker engine: {path} does not exist; install and start one, or set DOCKER_HOST to its socket"
    if isinstance(error, PermissionError):
        return (
            f"no permission to use the Docker engine at {path}; add this user to the group that owns it "
            f"(`ls -l {path}`; usually `docker`) and log in again"
        )
    return f"the Docker engine at {path} does not answer ({error.strerror}); is dockerd running?"
