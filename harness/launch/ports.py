"""A free TCP port on the loopback address."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that was free a moment ago.

    Between this and the server's own bind another process may take it; the server then fails to
    start and its log says so.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
