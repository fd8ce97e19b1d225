"""Send one request and keep what came, each piece with the time of its arrival; nothing is understood here.

While a stream runs, nothing is parsed: a stamp and an append per piece is all that this thread does, so
the other streams are not held up by it, and the client's CPU time stays small in any window.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

COMPLETIONS = "/v1/completions"
CHAT_COMPLETIONS = "/v1/chat/completions"
CONNECT_S = 5.0


@dataclass(frozen=True)
class Received:
    """A response as it arrived, with times in monotonic ns."""

    begin_ns: int
    sent_ns: int | None
    """The request's last byte was handed to the kernel."""
    end_ns: int
    status: int | None
    """None when no response came."""
    chunks: tuple[tuple[int, bytes], ...] = ()
    error: str | None = None


def open_session() -> requests.Session:
    """A session for one thread whose requests end at their deadline, whatever the server does.

    The user's proxy settings are left out: nobody may stand between us and the server.
    """
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", _WatchedAdapter())
    return session


def receive(session: requests.Session, url: str, body: bytes, *, deadline_s: float) -> Received:
    """Post a body that is JSON already, and read the response to its end.

    Nothing is raised: whatever went wrong is the result's `error`, beside all that had come by then.

    Args:
        session: one per thread.
        url: where to.
        body: the request, serialised.
        deadline_s: the whole request must end within this; a server that trickles headers, or one
            chunk, for ever does not pass.
    """
    stamped = _StampedBody(body)
    chunks: list[tuple[int, bytes]] = []
    status: int | None = None
    error: str | None = None
    if not isinstance(session.get_adapter(url), _WatchedAdapter):
        session.mount("http://", _WatchedAdapter())
    watch = _Watch(deadline_s)
    token = _WATCH.set(watch)
    begin = time.monotonic_ns()
    try:
        with session.post(
            url,
            data=stamped,
            headers={"Content-Type": "application/json"},
            stream=True,
            timeout=(min(CONNECT_S, deadline_s), deadline_s),
            allow_redirects=False,
        ) as response:
            status = response.status_code
            for chunk in response.iter_content(None):
                chunks.append((time.monotonic_ns(), chunk))  # noqa: PERF401  # a stream that breaks off keeps these
    except requests.RequestException as e:
        error = f"{type(e).__name__}: {e}"
    finally:
        _WATCH.reset(token)
    end = time.monotonic_ns()
    if watch.off():
        error = f"not finished within {deadline_s:g} s"
    return Received(begin, stamped.sent_ns, end, status, tuple(chunks), error)


class _Watch:
    """Ends the connections of a request when its time is up, even in the middle of a header that never ends."""

    def __init__(self, deadline_s: float) -> None:
        self._sockets: list[socket.socket] = []
        self._up = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(deadline_s, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def over(self, sock: socket.socket) -> None:
        """Watch this connection."""
        with self._lock:
            self._sockets.append(sock)
            if self._up:
                _shut(sock)

    def off(self) -> bool:
        """Stop watching; True when the time was up."""
        self._timer.cancel()
        with self._lock:
            self._sockets.clear()
            return self._up

    def _cut(self) -> None:
        with self._lock:
            self._up = True
            for sock in self._sockets:
                _shut(sock)


def _shut(sock: socket.socket) -> None:
    """Wake whoever reads or writes it; closing alone would not."""
    with contextlib.suppress(OSError):  # it has just ended by itself
        sock.shutdown(socket.SHUT_RDWR)


_WATCH: ContextVar[_Watch | None] = ContextVar("watch of the request that this thread sends", default=None)


class _WatchedConnection(HTTPConnection):
    """Hands its socket to the watch before the first byte is sent, new or kept alive."""

    def connect(self) -> None:
        super().connect()
        self._watch()

    def request(self, *args: Any, **kwargs: Any) -> None:
        self._watch()
        super().request(*args, **kwargs)

    def _watch(self) -> None:
        watch = _WATCH.get()
        if watch is not None and self.sock is not None:
            watch.over(self.sock)


class _WatchedPool(HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _WatchedAdapter(HTTPAdapter):
    """Plain HTTP as `requests` speaks it, over connections that a watch can end."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _WatchedPool}


class _StampedBody(io.BytesIO):
    """A request body that knows when its last byte was read to be sent."""

    sent_ns: int | None = None

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        # Once, with the last bytes: urllib3 reads again at the end, and a client that was descheduled in
        # between would stamp late, which turns into a prefill rate that no engine has.
        if self.sent_ns is None and self.tell() == len(self.getbuffer()):
            self.sent_ns = time.monotonic_ns()
        return data
