"""HTTP/1.1 as uvicorn speaks it: headers, keep-alive, chunked event streams, access lines."""

from __future__ import annotations

import json
import select
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.fakes import log_lines
from harness.fakes.asks import ApiError

JSON = "application/json"
EVENT_STREAM = "text/event-stream; charset=utf-8"
SEGMENT_BYTES = 32_768
TRICKLE_S = 0.02


class WireServer(ThreadingHTTPServer):
    """Binds its port at once and listens when `server_activate` is called, as vLLM does."""

    request_queue_size = 512

    def __init__(self, address: tuple[str, int], handler: type[WireHandler]) -> None:
        self.stopping = threading.Event()
        super().__init__(address, handler, bind_and_activate=False)
        try:
            self.server_bind()
        except OSError:
            self.server_close()
            raise

    def server_bind(self) -> None:
        """Bind without HTTPServer's reverse look-up of the host, which can take seconds."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class WireHandler(BaseHTTPRequestHandler):
    """One connection; a subclass adds the routes."""

    server: WireServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    body: bytes = b""
    """Of the request at hand."""
    received_ns: int = 0
    """When the last byte of it had been read."""
    _unsent: bytes = b""

    def dispatch(self, routes: Mapping[str, Callable[[], None]]) -> None:
        """Read the request's body and call its route."""
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.received_ns = time.monotonic_ns()
        route = routes.get(self.path.partition("?")[0])
        if route is None:
            self.send_json({"detail": "Not Found"}, 404)
            return
        try:
            route()
        except ApiError as e:
            self.send_json(e.body(), e.status)

    def send_json(self, body: Mapping[str, Any], status: int = 200, *, cut: bool = False) -> None:
        """Answer with JSON."""
        self.send_body(dump(body), status, JSON, cut=cut)

    def send_body(self, body: bytes, status: int, content_type: str | None, *, cut: bool = False) -> None:
        """Answer; with `cut`, break off in the middle of the body."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if content_type:
            self.send_header("Content-Type", content_type)
        self.end_headers()
        if cut:
            self.close_connection = True
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def begin_stream(self) -> None:
        """Send the headers of an event stream."""
        self.send_response(200)
        self.send_header("Content-Type", EVENT_STREAM)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_event(self, data: bytes, *, soon: bool = True) -> None:
        """Send one event of a stream, in a chunk of its own, and in a segment of its own unless it may wait."""
        event = b"data: " + data + b"\n\n"
        self._unsent += b"%x\r\n%b\r\n" % (len(event), event)
        if soon or len(self._unsent) >= SEGMENT_BYTES:
            self.flush_events()

    def flush_events(self) -> None:
        """Send what waits."""
        data, self._unsent = self._unsent, b""
        if data:
            self.wfile.write(data)

    def end_stream(self) -> None:
        """Send the chunk that ends a stream."""
        self.flush_events()
        self.wfile.write(b"0\r\n\r\n")

    def trickle_headers(self) -> None:
        """Send a header that never ends, while the client stays."""
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Endless: ")
        while not self.server.stopping.wait(TRICKLE_S):
            self.wfile.write(b"x")

    def wait_for_client_to_leave(self) -> None:
        """Return when the client has hung up or the server stops."""
        self.close_connection = True
        while not self.server.stopping.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.05)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return

    def version_string(self) -> str:
        """The `Server` header."""
        return "uvicorn"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Write the access line of uvicorn."""
        del size
        status = HTTPStatus(int(code))
        client = f"{self.client_address[0]}:{self.client_address[1]}"
        log_lines.write(f'INFO:     {client} - "{self.requestline}" {status.value} {status.phrase}')

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
        """Say what uvicorn says of a request that is none."""
        del format, args
        log_lines.write("WARNING:  Invalid HTTP request received.")


def dump(body: Mapping[str, Any]) -> bytes:
    """JSON as vLLM writes it."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
