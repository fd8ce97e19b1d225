"""A server that behaves like GitHub's API, as far as comments and statuses go: real HTTP, and a memory."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "local-inference-lab/vllm"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
US, THEM = {"id": 11, "login": "qualifier"}, {"id": 12, "login": "somebody"}
BODY_LIMIT = 65_536


@dataclass
class Fault:
    """What goes wrong with the next requests that fit."""

    method: str
    path: str
    """Pattern."""
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "fault"
    times: int = 1
    lose: bool = False
    """The request is carried out, and its answer never comes."""


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    authorization: str | None
    body: Any


@dataclass
class GitHubState:
    """Everything that the server knows."""

    head: str
    number: int = 271
    page: int = 100
    """Entries of one page, however many are asked for."""
    comments: list[dict[str, Any]] = field(default_factory=list)
    statuses: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)
    accounts: dict[str, dict[str, Any]] = field(default_factory=lambda: {TOKEN: US})
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    on_read: Callable[[dict[str, Any]], None] | None = None
    """Called with the comment after each time that it was read alone: somebody edits it."""
    edits: int = 0
    tags: bool = True
    """Answers carry an ETag."""
    unchanged: int = 0
    """Times that nothing but "not modified" was answered."""
    url: str = ""

    def say(self, body: str, user: dict[str, Any] = US) -> dict[str, Any]:
        """Somebody comments."""
        number = 1000 + len(self.comments)
        comment = {"id": number, "body": body, "user": user, "html_url": f"https://github.example/c/{number}"}
        self.comments.append(comment)
        self.edit(comment, body)
        return comment

    def edit(self, comment: dict[str, Any], body: str) -> None:
        """A comment becomes another one."""
        self.edits += 1
        comment |= {"body": body, "updated_at": f"2026-11-30T00:00:{self.edits:02d}Z"}

    def writes(self) -> list[tuple[str, str]]:
        """Method and path of what was written."""
        return [(s.method, s.path) for s in self.seen if s.method != "GET"]


@contextmanager
def serving(state: GitHubState) -> Iterator[GitHubState]:
    """Run the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(state: GitHubState) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            parts = urlsplit(self.path)
            with lock:
                state.seen.append(Seen(self.command, parts.path, self.headers.get("Authorization"), body))
                fault = next(
                    (f for f in state.faults if f.method == self.command and re.search(f.path, parts.path)), None
                )
                if fault is not None:
                    fault.times -= 1
                    if not fault.times:
                        state.faults.remove(fault)
                    if not fault.lose:
                        self._answer(fault.status, {"message": fault.message}, fault.headers)
                        return
                status, tree, headers = _routed(
                    state, self.command, parts.path, parse_qs(parts.query), dict(self.headers.items()), body
                )
                if fault is not None:
                    self.close_connection = True
                    return
            self._answer(status, tree, headers)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815  # http.server's names

        def _answer(self, status: int, tree: Any, headers: dict[str, str]) -> None:
            data = b"" if tree is None else json.dumps(tree).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing: what came stands in `seen`."""

    return Handler


Reply = tuple[int, Any, dict[str, str]]


def _routed(
    state: GitHubState, method: str, path: str, query: dict[str, list[str]], headers: dict[str, str], body: Any
) -> Reply:
    token = headers.get("Authorization", "").removeprefix("Bearer ")
    user = state.accounts.get(token)
    if user is None and token:
        return 401, {"message": "Bad credentials"}, {}
    root = f"/repos/{REPOSITORY}"
    match method, path.removeprefix(root):
        case "GET", "/user":
            return (200, user, {}) if user else (401, {"message": "Requires authentication"}, {})
        case "GET", rest if rest == f"/pulls/{state.number}":
            return 200, {"number": state.number, "head": {"sha": state.head}}, {}
        case "GET", rest if rest == f"/issues/{state.number}/comments":
            return _page(state, path, query)
        case "POST", rest if rest == f"/issues/{state.number}/comments":
            if len(body["body"]) > BODY_LIMIT:
                return 422, {"message": "Validation Failed", "errors": [{"message": "body is too long"}]}, {}
            assert user is not None
            return 201, state.say(body["body"], user), {}
        case _, rest if found := re.fullmatch(r"/issues/comments/(\d+)", rest):
            return _comment(state, method, int(found[1]), headers, body, user)
        case "POST", rest if found := re.fullmatch(r"/statuses/(\w+)", rest):
            if found[1] not in state.commits:
                return 422, {"message": f"No commit found for SHA: {found[1]}"}, {}
            state.statuses.setdefault(found[1], []).append(body)
            return 201, body, {}
    return 404, {"message": "Not Found"}, {}


def _page(state: GitHubState, path: str, query: dict[str, list[str]]) -> Reply:
    size = min(state.page, int(query["per_page"][0]))
    number = int(query.get("page", ["1"])[0])
    shown = state.comments[(number - 1) * size : number * size]
    more = number * size < len(state.comments)
    following = f"<{state.url}{path}?per_page={size}&page={number + 1}>"
    return 200, shown, {"Link": f'{following}; rel="next", {following}; rel="last"'} if more else {}


def _comment(
    state: GitHubState, method: str, number: int, headers: dict[str, str], body: Any, user: dict[str, Any] | None
) -> Reply:
    comment = next((c for c in state.comments if c["id"] == number), None)
    if comment is None:
        return 404, {"message": "Not Found"}, {}
    if method == "PATCH":
        if user != comment["user"]:
            return 403, {"message": "Must have write access"}, {}
        state.edit(comment, body["body"])
        return 200, dict(comment), {}
    etag = f'W/"{hashlib.sha256(json.dumps(comment).encode()).hexdigest()}"'
    reply: Reply = (200, dict(comment), {"ETag": etag} if state.tags else {})
    if headers.get("If-None-Match") == etag:
        state.unchanged += 1
        reply = (304, None, {"ETag": etag})
    if state.on_read is not None:
        state.on_read(comment)
    return reply
