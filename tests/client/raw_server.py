"""A server that answers with the bytes that a test gives it, and keeps the requests that it got."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

Answer = Callable[[socket.socket], object]


@dataclass
class RawServer:
    url: str
    bodies: list[bytes] = field(default_factory=list)
    """Of the requests, in order of arrival."""


@contextlib.contextmanager
def raw_server(answer: Answer, *, read_after_s: float = 0.0, receive_bytes: int | None = None) -> Iterator[RawServer]:
    """Serve one connection after the other, one request each; what a client breaks off is no fault."""
    with socket.socket() as listener:
        if receive_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = RawServer(f"http://127.0.0.1:{listener.getsockname()[1]}")
        open_: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                open_.append(connection)
                with connection, contextlib.suppress(OSError):
                    time.sleep(read_after_s)
                    server.bodies.append(read_request(connection))
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            for each in (listener, *open_):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            assert not thread.is_alive()


def read_request(connection: socket.socket) -> bytes:
    """Read one request; its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += received(connection)
    return body


def received(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionError("the client left")
    return data


def respond(connection: socket.socket, status: int, body: bytes, *headers: str) -> None:
    """A whole response."""
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(body)}", "Connection: close"]
    connection.sendall("".join(f"{line}\r\n" for line in (*head, *headers, "")).encode() + body)


def begin_stream(connection: socket.socket) -> None:
    connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )


def send_chunk(connection: socket.socket, data: bytes) -> None:
    connection.sendall(b"%x\r\n%b\r\n" % (len(data), data))


def stream(connection: socket.socket, events: Iterable[bytes]) -> None:
    """A whole stream of events, each in a chunk of its own."""
    begin_stream(connection)
    for event in events:
        send_chunk(connection, b"data: " + event + b"\n\n")
    send_chunk(connection, b"")
