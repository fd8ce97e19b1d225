"""A container's output without the engine's framing: the bytes as the server wrote them.

Taken from the attached connection and not from the engine's own log, which rewrites what is no
UTF-8, adds line ends and is rotated. Each frame is a header of eight bytes (stream, three zeros,
length) and its payload; stdout and stderr come in the order in which the engine read them.
"""

from __future__ import annotations

import struct

from harness.launch.docker.engine import Attached
from harness.launch.logpipe import READ_BYTES

HEADER = struct.Struct(">BxxxL")


class ContainerOutput:
    """The `LogSource` of a container."""

    def __init__(self, attached: Attached) -> None:
        self._attached = attached
        self._header = bytearray()
        self._left = 0
        self.fault: str | None = None
        """Why the output ended inside a frame, or broke off; None where it ended as output ends."""

    def read(self) -> bytes:
        """Payload as it comes, both streams; see `LogSource.read`."""
        while True:
            try:
                data = self._attached.connection.recv(READ_BYTES)
            except OSError as e:
                self.fault = f"the connection to the container's output broke: {e}"
                return b""
            if not data:
                if self._left or self._header:
                    self.fault = "the container's output ended inside a frame"
                return b""
            if payload := self._payload(data):
                return payload

    def close(self) -> None:
        """See `LogSource.close`."""
        self._attached.close()

    def _payload(self, data: bytes) -> bytes:
        parts = []
        view = memoryview(data)
        while view:
            if not self._left:
                wanted = HEADER.size - len(self._header)
                self._header += view[:wanted]
                view = view[wanted:]
                if len(self._header) == HEADER.size:
                    _, self._left = HEADER.unpack(self._header)
                    self._header.clear()
                continue
            parts.append(view[: self._left])
            view = view[self._left :]
            self._left -= len(parts[-1])
        return b"".join(parts)
