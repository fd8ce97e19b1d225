"""The comments of one pull request: ours found again, read, created once, or changed in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.errors import ConfigError
from harness.publish.answers import Comment, Pull, User, read
from harness.publish.body import is_of, plain_lines
from harness.publish.evidence import Target
from harness.publish.github import AnswerLostError, GitHub

Compose = Callable[[Comment | None], str]
"""The new body, from the comment as it is."""


@dataclass(frozen=True)
class Call:
    """A request that writes: what a dry run prints and `--send` sends."""

    method: str
    url: str
    payload: dict[str, str]


@dataclass(frozen=True)
class Found:
    """Our comment, with the tag of that state of it."""

    comment: Comment
    etag: str | None


class Conversation:
    """One pull request through the API."""

    def __init__(self, github: GitHub, target: Target, login: str | None = None) -> None:
        self._github = github
        self._target = target
        self._login = login
        self._repository = f"/repos/{target.repository}"

    def head(self) -> str:
        """SHA of the pull request's head as it is now.

        Raises:
            ConfigError: not there, or not to be seen.
            SetupFailure: GitHub cannot be reached.
        """
        path = f"{self._repository}/pulls/{self._target.number}"
        return read(Pull, self._github.get(path).tree, f"GET {path}").head.sha

    def find(self, profile: str) -> Found | None:
        """Our comment of a profile, the oldest where there are several. A marker that somebody else wrote is none.

        Raises:
            ConfigError: not to be seen; or whose comments are ours cannot be told.
            SetupFailure: GitHub cannot be reached.
        """
        path = f"{self._repository}/issues/{self._target.number}/comments"
        ours = self._ours()
        for tree in self._github.every(path):
            comment = read(Comment, tree, f"GET {path}")
            if comment.user is not None and ours(comment.user) and is_of(comment.body or "", profile):
                return self.read(comment.id)
        return None

    def read(self, number: int) -> Found:
        """A comment as it is now.

        Raises:
            ConfigError: it is gone.
            SetupFailure: GitHub cannot be reached.
        """
        answer = self._github.get(self._path(number))
        return Found(read(Comment, answer.tree, f"GET {self._path(number)}"), answer.etag)

    def call(self, found: Found | None, body: str) -> Call:
        """What puts this body there."""
        if found is None:
            path = f"{self._repository}/issues/{self._target.number}/comments"
            return Call("POST", f"{self._github.url}{path}", {"body": body})
        return Call("PATCH", f"{self._github.url}{self._path(found.comment.id)}", {"body": body})

    def create(self, profile: str, body: str) -> Comment:
        """Write the first comment, once: before a second attempt it looks whether the first one arrived.

        Raises:
            ConfigError: not allowed.
            SetupFailure: GitHub cannot be reached.
        """
        path = f"{self._repository}/issues/{self._target.number}/comments"
        attempt = 0
        while True:
            try:
                answer = self._github.create(path, {"body": body})
                return read(Comment, answer.tree, f"POST {path}")
            except AnswerLostError:
                self._github.lost(attempt, path)
                attempt += 1
                if (found := self.find(profile)) is not None:
                    return found.comment

    def change(self, found: Found, compose: Compose) -> Comment:
        """Change a comment in place, if it still is as it was read; once more with what it became.

        Raises:
            ConfigError: it changes faster than it can be read, is gone, or may not be changed.
            SetupFailure: GitHub cannot be reached.
        """
        for _ in range(2):
            body = compose(found.comment)
            now = self._again(found)
            if now is None:
                answer = self._github.send("PATCH", self._path(found.comment.id), {"body": body})
                return read(Comment, answer.tree, f"PATCH {self._path(found.comment.id)}")
            found = now
        raise ConfigError(
            f"comment {found.comment.id} of {self._target} was edited twice while it was to be changed: somebody else "
            "publishes there too; nothing was written, run it again"
        )

    def _again(self, found: Found) -> Found | None:
        """The comment as it is now, or None where nobody has changed it."""
        answer = self._github.get(self._path(found.comment.id), found.etag)
        if answer.tree is None:
            return None
        now = read(Comment, answer.tree, f"GET {self._path(found.comment.id)}")
        same = now.state == found.comment.state
        return None if same else Found(now, answer.etag)

    def _ours(self) -> Callable[[User], bool]:
        if self._login is not None:
            login = self._login.lower()
            return lambda user: user.login.lower() == login
        try:
            answer = self._github.get("/user")
        except ConfigError as e:
            raise ConfigError(
                f"{e}\nAn app's token, as that of GitHub Actions, cannot say whose it is: name the account with "
                "--login, there `github-actions[bot]`"
            ) from None
        own = read(User, answer.tree, "GET /user").id
        return lambda user: user.id == own

    def _path(self, number: int) -> str:
        return f"{self._repository}/issues/comments/{number}"


def same_text(one: str | None, other: str) -> bool:
    """Equal but for the ends of lines, which GitHub's editor changes."""
    return one is not None and plain_lines(one.rstrip()) == plain_lines(other.rstrip())
