"""GitHub's REST API: one request at a time, retried where that is safe, and errors that say what to mend.

https://docs.github.com/rest; the token goes to the host that was named and to no other.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

from harness import __version__
from harness.errors import ConfigError, QualifyError, SetupFailure
from harness.publish.token import Token
from harness.publish.waiting import Patience
from harness.report.text import plain

TIMEOUT_S = (10.0, 30.0)
PAGES = 100
HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": f"qualify/{__version__}",
}
PERMISSIONS = (
    "a fine-grained token or an app needs `Pull requests: write` for the comment and `Commit statuses: write` for "
    "the status, a classic token `repo` (`public_repo` and `repo:status` for a public repository)"
)


class AnswerLostError(Exception):
    """A request that must not be made twice may have been carried out: the caller looks before it asks again."""


@dataclass(frozen=True)
class Answer:
    """What GitHub said."""

    status: int
    tree: Any
    """Parsed JSON; None where nothing changed (304)."""
    etag: str | None
    next_url: str | None


class GitHub:
    """A connection to one API."""

    def __init__(self, api_url: str, token: Token | None, patience: Patience) -> None:
        """Connect to nothing yet.

        Raises:
            ConfigError: the address would send the token in the clear, or is no address of an API.
        """
        self.url = checked_url(api_url)
        self._token = token
        self._patience = patience
        self._session = requests.Session()
        # Proxies and certificates of the environment are wanted, except on the way to this host itself.
        self._session.trust_env = urlsplit(self.url).scheme == "https"

    @property
    def has_token(self) -> bool:
        """Requests are made in somebody's name."""
        return self._token is not None

    def get(self, path: str, etag: str | None = None) -> Answer:
        """Read; with the tag of an earlier answer, status 304 where nothing changed.

        Raises:
            ConfigError: not there or not allowed.
            SetupFailure: GitHub cannot be reached, or not in time.
        """
        return self._ask("GET", self._at(path), None, {"If-None-Match": etag} if etag else {})

    def every(self, path: str) -> Iterator[Any]:
        """Entries of a list over all of its pages.

        Raises:
            ConfigError: as for `get`; or a page is said to lie on another host.
            SetupFailure: as for `get`.
        """
        url: str | None = self._at(f"{path}?per_page=100")
        for _ in range(PAGES):
            if url is None:
                return
            answer = self._ask("GET", url, None, {})
            if not isinstance(answer.tree, list):
                raise SetupFailure(f"GET {url}: no list came back; is {self.url} an API of GitHub?")
            yield from answer.tree
            url = answer.next_url
        raise SetupFailure(f"GET {path}: more than {PAGES} pages")

    def send(self, method: str, path: str, payload: object) -> Answer:
        """Write what may be written twice.

        Raises:
            ConfigError: as for `get`.
            SetupFailure: as for `get`.
        """
        return self._ask(method, self._at(path), payload, {})

    def create(self, path: str, payload: object) -> Answer:
        """Write what must not be written twice.

        Raises:
            AnswerLostError: it may be there already.
            ConfigError: as for `get`.
            SetupFailure: as for `get`.
        """
        return self._ask("POST", self._at(path), payload, {}, once=True)

    def lost(self, attempt: int, path: str) -> None:
        """Wait after a lost answer.

        Raises:
            SetupFailure: it was the last attempt.
        """
        self._patience.after_failure(attempt, f"POST {self._at(path)}: no answer came back")

    def _at(self, path: str) -> str:
        return f"{self.url}{path}"

    def _ask(self, method: str, url: str, payload: object, headers: dict[str, str], *, once: bool = False) -> Answer:
        what = f"{method} {url}"
        failures = limits = 0
        while True:
            try:
                response = self._once(method, url, payload, headers)
            except requests.RequestException as e:
                # Its text repeats the address, and more where a proxy is in between: the kind says enough.
                failure = f"{what}: {type(e).__name__}"
            else:
                if response.status_code < 500:
                    if not _is_limited(response):
                        return self._answer(what, response)
                    self._patience.after_limit(response.headers, limits, what)
                    limits += 1
                    continue
                failure = f"{what}: status {response.status_code}"
            if once:
                raise AnswerLostError(failure) from None
            self._patience.after_failure(failures, failure)
            failures += 1

    def _once(self, method: str, url: str, payload: object, headers: dict[str, str]) -> requests.Response:
        return self._session.request(
            method,
            url,
            data=None if payload is None else json.dumps(payload).encode(),
            headers=HEADERS | headers | ({} if payload is None else {"Content-Type": "application/json"}),
            auth=self._token or _anonymous,
            timeout=TIMEOUT_S,
            allow_redirects=False,
        )

    def _answer(self, what: str, response: requests.Response) -> Answer:
        status = response.status_code
        if status == requests.codes.not_modified:
            return Answer(status, None, response.headers.get("ETag"), None)
        if not response.ok or response.is_redirect:
            raise self._error(what, response)
        try:
            tree = response.json()
        except ValueError:
            raise SetupFailure(f"{what}: no JSON came back; is {self.url} an API of GitHub?") from None
        following = response.links.get("next", {}).get("url")
        if following is not None and not following.startswith(f"{self.url}/"):
            raise ConfigError(f"{what}: the next page is said to lie elsewhere, and the token is not sent there")
        return Answer(status, tree, response.headers.get("ETag"), following)

    def _error(self, what: str, response: requests.Response) -> QualifyError:
        status, said = response.status_code, self._said(response)
        if response.is_redirect or 300 <= status < 400:
            host = urlsplit(response.headers.get("Location", "")).netloc or "another place"
            return ConfigError(
                f"{what}: moved to {plain(host)[:100]}, where the token is not sent; was the repository renamed? Give "
                "its name of today with --repo"
            )
        told = f"{what}: GitHub says {status}{f' ({said})' if said else ''}"
        match status:
            case 401:
                origin = self._token.origin if self._token else "no token"
                return ConfigError(f"{told}: the token is wrong, expired or revoked ({origin})")
            case 403:
                return ConfigError(f"{told}: the token may not do that; {PERMISSIONS}")
            case 404:
                return ConfigError(
                    f"{told}: it does not exist, or the token may not see it; check --repo and --pr, and that the "
                    f"token reaches that repository: {PERMISSIONS}"
                )
            case 422:
                return ConfigError(f"{told}: what was sent does not fit the repository: is the commit in it?")
            case _:
                return SetupFailure(told)

    def _said(self, response: requests.Response) -> str:
        """The server's own words, shortened, without anything that it was sent."""
        try:
            tree = response.json()
        except ValueError:
            return ""
        if not isinstance(tree, dict):
            return ""
        parts = [tree.get("message"), *(e.get("message") for e in tree.get("errors") or () if isinstance(e, dict))]
        text = "; ".join(p for p in parts if isinstance(p, str))
        text = self._token.hidden(text) if self._token else text
        return " ".join(plain(text).split())[:300]


def checked_url(api_url: str) -> str:
    """The address of the API, without a slash at its end.

    Raises:
        ConfigError: it is none, holds credentials, or is not encrypted and not on this host.
    """
    try:
        parts = urlsplit(api_url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ConfigError("--api-url is no address of an API; GitHub's is https://api.github.com")
    if "@" in parts.netloc:
        raise ConfigError("--api-url holds a user's name or password; give the token by --token-file")
    if parts.scheme != "https" and not _is_loopback(host):
        raise ConfigError(f"--api-url {api_url}: the token would go there in the clear; use https")
    return api_url.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_limited(response: requests.Response) -> bool:
    """True for the rate limits, primary and secondary; other 403 are about permissions."""
    if response.status_code == requests.codes.too_many_requests:
        return True
    if response.status_code != requests.codes.forbidden:
        return False
    headers = response.headers
    return (
        "Retry-After" in headers or headers.get("X-RateLimit-Remaining") == "0" or "rate limit" in response.text.lower()
    )


def _anonymous(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """No credentials at all, not those of ~/.netrc either."""
    return request
